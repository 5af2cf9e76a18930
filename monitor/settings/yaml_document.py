"""YAML text as plain data in which every key path knows its line, with ``${NAME}`` expanded. Reads no file, knows no setting.

Unlike YAML 1.1 ``yes``, ``no``, ``on``, ``off``, dates, ``1:30`` and keys are text; tags are refused but for the basic ones.
``$${`` stands for ``${`` itself; a ``$`` before anything else is a ``$``.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.composer import Composer

from monitor.errors import ConfigError
from monitor.settings.problems import KeyPath, Problem

_REFERENCE = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{"
)

MAX_BYTES = 1 << 20
_MAX_VALUES = 100_000
_MAX_DEPTH = 40
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?\d{1,18}", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
_UNFIT = re.compile(
    "[\0\ud800-\udfff]"
)  # escapes, or a variable that is no UTF-8; JSON's halves come in pairs, YAML's do not
_IS_UNFIT = 'holds "\\0" or half of a character: neither can stand in a text'
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_STRING_TAG = "tag:yaml.org,2002:str"
_SYNTAX_ADVICE = {
    "found undefined alias": "an alias without its anchor; a value that begins with * must be quoted",
    "found duplicate anchor": "an anchor is given twice; a value that begins with & must be quoted",
    "found undefined tag handle": "an unknown tag; a value that begins with ! must be quoted",
    "found character '\\t'": "a tab cannot indent or begin a value; use spaces",
    "expected a single document": "a second document begins here; only one is read",
}
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_HARMLESS = re.compile(r"['\"](?:<[a-z ]+>|.|\\.|key|alias|anchor|tag|scalar)['\"]")
_UNLIKE = re.compile(r"[\t!]")  # libyaml takes tabs and tags otherwise
_DERIVED = frozenset(f"tag:yaml.org,2002:{name}" for name in ("timestamp", "value", "merge"))

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # not every PyYAML has libyaml


class _Fast(Composer, _Parser):  # type: ignore[misc]
    """Reads eight times as fast, by libyaml.

    Nodes are made in Python, where nesting too deep is an error and not a crash.
    """

    def __init__(self, stream: str) -> None:
        _Parser.__init__(self, stream)
        Composer.__init__(self)


def _expand(text: str, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text with variables put in, and their values.

    ValueError names a variable that is not set.
    """
    used: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        used.append(_value(match, environ))
        return used[-1]

    return _REFERENCE.sub(replace, text), used


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    name, default = match["name"], match["default"]
    if name is None:
        raise ValueError(
            (
                "a ${ without a name and a }: write ${NAME} or ${NAME:-default}, or $${ for a "
                "literal ${"
            )
        )
    value = environ.get(name)
    if default is not None:
        return value or str(default)
    if value is None:
        raise ValueError(
            (
                f"environment variable {name} is not set: set it, or give a default: "
                f"${{{name}:-default}}"
            )
        )
    return value


class EmptyConfigError(ConfigError):
    """There is nothing in the text but blanks and comments."""


@dataclass(slots=True)
class YamlDocument:
    """Plain data, the line of each key path, problems, and the values of variables."""

    data: object = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    texts: dict[KeyPath, str] = field(
        default_factory=dict
    )  # unquoted numbers and words as written, for settings that are text
    problems: list[Problem] = field(default_factory=list)
    expanded: set[str] = field(default_factory=set)

    @property
    def mapping(self) -> dict[str, Any]:
        """The data of a document that is a mapping."""
        return self.data if isinstance(self.data, dict) else {}

    def line(self, path: KeyPath) -> int:
        """Line of the key or list item at this path; of its nearest parent when it is not there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def parse_yaml(text: str, name: str, environ: Mapping[str, str]) -> YamlDocument:
    """Read a text as plain data, with ``${NAME}`` expanded.

    ConfigError naming ``name`` when it is no YAML document.
    """
    node = _compose(text, name)
    if node is None:
        raise EmptyConfigError(f"{name}: is empty; write a configuration with: rankwatch init")
    builder = _Builder(name, environ)
    builder.document.data = builder.build(node, (), node.start_mark.line + 1)
    return builder.document


def _compose(text: str, name: str) -> yaml.Node | None:
    if not _UNLIKE.search(text):
        with suppress(
            yaml.YAMLError, ValueError, RecursionError
        ):  # said below, in the words of the other
            return yaml.compose(text, Loader=_Fast)
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        msg = f"{name}:{line}: a control character stands here; only text is allowed"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        msg = f"{name}:{mark.line + 1}: {_syntax(error)}" if mark else f"{name}: {_syntax(error)}"
    except (
        RecursionError,
        ValueError,
        OverflowError,
    ):  # deep nesting; "\U00110000"; "%YAML 9999..."
        msg = f"{name}: nested too deeply, or an escape or directive out of range"
    raise ConfigError(msg)


def _syntax(error: yaml.MarkedYAMLError) -> str:
    # What the parser quotes from the text is left out: it may be a secret written without quotes.
    problem = error.problem or "cannot be read"
    whole = f"{error.context}, {problem}" if error.context else problem
    for sign, advice in _SYNTAX_ADVICE.items():
        if sign in whole:
            return f"not valid YAML: {advice}"
    return "not valid YAML: " + _QUOTED.sub(
        lambda match: match[0] if _HARMLESS.fullmatch(match[0]) else "...", whole
    )


class _Builder:
    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self.document = YamlDocument()
        self._name = name
        self._environ = environ
        self._open: set[int] = set()
        self._values = 0

    def build(self, node: yaml.Node, path: KeyPath, line: int) -> object:
        self._admit(node, path)
        self.document.lines[path] = line
        if node.tag not in _TAGS and not _is_implicit(node):
            self._report(
                path, line, "a tag is not allowed here; a value that begins with ! must be quoted"
            )
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path, line)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            return [
                self.build(item, (*path, n), item.start_mark.line + 1)
                for n, item in enumerate(node.value)
            ]
        finally:
            self._open.discard(id(node))

    def _admit(self, node: yaml.Node, path: KeyPath) -> None:
        self._values += 1
        if id(node) in self._open:
            message = "an alias stands inside of what it stands for"
        elif self._values > _MAX_VALUES:
            message = f"aliases and values together come to more than {_MAX_VALUES} values"
        elif len(path) > _MAX_DEPTH:
            message = f"nested more than {_MAX_DEPTH} levels deep"
        else:
            return
        raise ConfigError(f"{self._name}:{node.start_mark.line + 1}: {message}")

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        built: dict[str, object] = {}
        merged: list[tuple[yaml.Node, yaml.Node]] = []
        for key, value in node.value:
            self._admit(key, path)
            if key.tag == "tag:yaml.org,2002:merge":
                merged.extend(self._merged(value, path))
            elif (name := self._key(key, path)) is not None and name in built:
                first = self.document.lines[*path, name]
                self._report(
                    (*path, name),
                    key.start_mark.line + 1,
                    f"given twice; it already stands on line {first}",
                )
            elif name is not None:
                built[name] = self.build(value, (*path, name), key.start_mark.line + 1)
        for key, value in merged:
            if (name := self._key(key, path)) is not None and name not in built:
                built[name] = self.build(value, (*path, name), key.start_mark.line + 1)
        return built

    def _merged(self, node: yaml.Node, path: KeyPath) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Pairs that ``<<: *anchor`` brings in; earlier ones win."""
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            self._admit(source, path)
            if not isinstance(source, yaml.MappingNode):
                self._report(
                    path,
                    node.start_mark.line + 1,
                    "<< takes an alias of a mapping, such as <<: *defaults",
                )
                continue
            self._open.add(id(source))
            for key, value in source.value:
                self._admit(key, path)
                if key.tag == "tag:yaml.org,2002:merge":
                    yield from self._merged(value, path)
                else:
                    yield key, value
            self._open.discard(id(source))

    def _key(self, node: yaml.Node, path: KeyPath) -> str | None:
        if isinstance(node, yaml.ScalarNode):
            if _UNFIT.search(node.value):
                self._report(path, node.start_mark.line + 1, _IS_UNFIT)
                return None
            return str(node.value)
        self._report(
            path,
            node.start_mark.line + 1,
            "a key must be plain text; text with {braces} must be quoted",
        )
        return None

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath, line: int) -> object:
        try:
            text, used = _expand(node.value, self._environ)
        except ValueError as error:
            self._report(path, line, str(error))
            return node.value
        self.document.expanded.update(used)
        if _UNFIT.search(text):
            self._report(path, line, _IS_UNFIT)
            return _UNFIT.sub("?", text)
        if not node.style:  # libyaml writes "" for none
            self.document.texts[path] = text
        return _plain(node, text, is_variable=bool(used))

    def _report(self, path: KeyPath, line: int, message: str) -> None:
        self.document.problems.append(Problem(path, message, line))


def _is_implicit(node: yaml.Node) -> bool:
    # The parser derives some tags by YAML 1.1's own rules (dates, ``=``) rather than reading them
    # from the text.
    return isinstance(node, yaml.ScalarNode) and not node.style and node.tag in _DERIVED


def _plain(node: yaml.ScalarNode, text: str, *, is_variable: bool) -> object:
    # A variable never makes a null: an empty one is empty text.
    if node.style or (node.tag == _STRING_TAG and not is_variable):
        return text
    if not is_variable and _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text)
    return (
        float(text.replace(".inf", "inf").replace(".nan", "nan"))
        if _FLOAT.fullmatch(text)
        else text
    )
