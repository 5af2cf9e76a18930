"""The web configuration file: TLS and authentication in the form of Prometheus' exporter-toolkit. Opens no certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath

from monitor.errors import ConfigError
from monitor.settings.validation import EmptyConfigError, read_mapping, read_text, report_lines, validate_document
from monitor.web.access_options import AccessOptions

_WEB_CONFIG_ADVICE = "name another as web_config_file; config/web.yaml is an example"
_MAX_WEB_CONFIG_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class WebConfig:
    """The options of a web configuration file, None when there is none or it is wrong, and all problems with it."""

    options: AccessOptions | None = None
    problems: tuple[str, ...] = ()


def read_web_config(path: str | None) -> WebConfig:
    """Read that file, if one is named."""
    if path is None:
        return WebConfig()
    try:
        return WebConfig(options=_parse_web_config(FilePath(path)))
    except ConfigError as error:
        return WebConfig(problems=tuple(str(error).splitlines()))


def _parse_web_config(path: FilePath) -> AccessOptions:
    text = read_text(path, advice=_WEB_CONFIG_ADVICE, most=_MAX_WEB_CONFIG_BYTES, may_be_pipe=False)
    try:
        # Whoever else reads this file knows no variables.
        document = read_mapping(text.replace("${", "$${"), str(path), {}, example="basic_auth_users: {...}")
    except EmptyConfigError:
        return AccessOptions()
    options, problems = validate_document(AccessOptions, document, {"base_dir": str(path.absolute().parent)})
    if options is None or problems:
        raise ConfigError("\n".join(dict.fromkeys(report_lines(document, problems, str(path)))))
    return options
