"""The web configuration file: who may look, in the form of Prometheus' exporter-toolkit. Certificates are not opened here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath

from monitor.errors import ConfigError
from monitor.settings.document import DocumentError, EmptyDocumentError, read
from monitor.settings.reading import lines, read_text, validate
from monitor.web import AccessOptions

_ADVICE = "name another as web_config_file; config/web.yaml is an example"
_MAX_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAccess:
    """What a web configuration file says, None when there is none or it is wrong; and everything that is wrong with it."""

    options: AccessOptions | None = None
    problems: tuple[str, ...] = ()


def find_access(path: str | None) -> FoundAccess:
    """Read that file, if one is named."""
    if path is None:
        return FoundAccess()
    try:
        return FoundAccess(options=_read_access(FilePath(path)))
    except ConfigError as error:
        return FoundAccess(problems=tuple(str(error).splitlines()))


def _read_access(path: FilePath) -> AccessOptions:
    text = read_text(path, advice=_ADVICE, most=_MAX_BYTES, may_be_pipe=False)
    try:
        document = read(text.replace("${", "$${"), {})  # no variables, as everybody else reads it
    except EmptyDocumentError:
        return AccessOptions()
    except DocumentError as error:
        msg = f"{path if error.line is None else f'{path}:{error.line}'}: {error.message}"
        raise ConfigError(msg) from None
    if not isinstance(document.data, dict):
        msg = f"{path}:{document.line(())}: must be a mapping (key: value) at the top level, such as basic_auth_users: {{...}}"
        raise ConfigError(msg)
    options, problems = validate(AccessOptions, document, {"base_dir": str(path.absolute().parent)})
    if options is None or problems:
        raise ConfigError("\n".join(dict.fromkeys(lines(document, problems, str(path)))))
    return options
