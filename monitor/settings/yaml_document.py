"""Reads YAML text as plain data, finds the line of each key path, and expands ``${NAME}``.

Values that YAML 1.1 would convert are text here: ``yes``, ``no``, ``on``, ``off``, dates and
``1:30``. All keys are text too. Only basic tags are allowed. ``$${`` means ``${``. A ``$`` before
any other character has no special meaning. This module reads no file and defines no settings.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml import MappingNode, Node, ScalarNode
from yaml.composer import Composer

from monitor.boundary.options.problems import KeyPath, PlacedMapping, Problem
from monitor.model.errors import ConfigError

_VARIABLE_REFERENCE = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{"
)

MAX_FILE_BYTES = 1 << 20
_MAX_VALUES = 100_000
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?\d{1,18}", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
# Characters that are not allowed. They come from escapes, or from a variable that is not UTF-8.
_FORBIDDEN_CHARACTERS = re.compile("[\0\ud800-\udfff]")
_FORBIDDEN_MESSAGE = 'contains "\\0" or half of a character: remove it'
_ALLOWED_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_STRING_TAG = "tag:yaml.org,2002:str"
_UNREADABLE_MESSAGE = (
    "is nested too deeply, has an alias inside its own value, or has an escape or a directive that "
    "is out of range"
)
_SYNTAX_ADVICE = {
    "found undefined alias": ("an alias has no anchor; put a value that begins with * in quotes"),
    "found duplicate anchor": (
        "an anchor is given twice; put a value that begins with & in quotes"
    ),
    "found undefined tag handle": "a tag is unknown; put a value that begins with ! in quotes",
    "found character '\\t'": "a tab cannot indent or begin a value; use spaces",
    "expected a single document": "a second document begins here; remove it, because only one is "
    "read",
}
_QUOTE = re.compile(r"'[^']*'|\"[^\"]*\"")
_HARMLESS_QUOTE = re.compile(r"['\"](?:<[a-z ]+>|.|\\.|key|alias|anchor|tag|scalar)['\"]")
_DIFFERS_IN_LIBYAML = re.compile(r"[\t!]")  # tabs and tags
_TAGS_BY_PARSER = frozenset(f"tag:yaml.org,2002:{name}" for name in ("timestamp", "value", "merge"))

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # not every PyYAML has libyaml


class _FastParser(Composer, _Parser):  # type: ignore[misc]
    """A parser that uses libyaml. It is eight times as fast as the parser in Python.

    The nodes are made in Python, because very deep nesting crashes C code but only raises an error
    in Python.
    """

    def __init__(self, stream: str) -> None:
        _Parser.__init__(self, stream)
        Composer.__init__(self)


def _expand_variables(text: str, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """Expand the variables in the text. Returns the new text, and the values of the variables.

    Raises ValueError for a variable that is not set.
    """
    values: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        value = _expand_variable(match, environ)
        values.append(value)
        return value

    return _VARIABLE_REFERENCE.sub(replace, text), values


def _expand_variable(match: re.Match[str], environ: Mapping[str, str]) -> str:
    """Return the value of the variable in a match of `_VARIABLE_REFERENCE`.

    In ``${NAME:-default}``, the default is used if the variable is empty or not set. Raises
    ValueError if the variable is not set and has no default, or if the reference is incomplete.
    """
    name = match["name"]
    default = match["default"]
    if name is None:
        raise ValueError(
            "a ${ has no name or no }: write ${NAME} or ${NAME:-default}, or $${ for a literal ${"
        )
    value = environ.get(name)
    if default is not None:
        return value or str(default)
    if value is None:
        raise ValueError(
            f"environment variable {name} is not set: set it, or give a default: "
            f"${{{name}:-default}}"
        )
    return value


class EmptyConfigError(ConfigError):
    """The configuration is empty, or has only blanks and comments."""


@dataclass(slots=True)
class YamlDocument:
    """The data of a document, the line of each key path, and all problems.

    ``texts`` has each value without quotes as it was written. Settings of type text use ``texts``.
    ``expanded`` has the values of variables.
    """

    data: PlacedMapping = field(default_factory=PlacedMapping)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    texts: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    expanded: set[str] = field(default_factory=set)

    def line(self, path: KeyPath) -> int:
        """The line of the key or list item at this path, or the line of its nearest parent."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def parse_yaml(
    text: str,
    name: str,
    environ: Mapping[str, str] | None = None,
    *,
    example: str = "comparisons: [...]",
    inside: KeyPath = (),
) -> YamlDocument:
    """Read the text as plain data. ``environ`` has the variables (default: the environment).

    The key paths of the document begin with ``inside``. Raises ConfigError, which names the file
    ``name``, if the text is not a YAML mapping.
    """
    node = _parse_nodes(text, name)
    if node is None:
        raise EmptyConfigError(f"{name}: is empty: write a configuration with `rankwatch init`")
    line = node.start_mark.line + 1
    if environ is None:
        environ = os.environ
    builder = _Builder(name, environ)
    try:
        data = builder.build(node, inside, line)
    except RecursionError:
        raise ConfigError(f"{name}: {_UNREADABLE_MESSAGE}") from None
    if not isinstance(data, PlacedMapping):
        raise ConfigError(
            f"{name}:{line}: must be a mapping (key: value) at the top level, such as {example}"
        )
    builder.document.data = data
    return builder.document


def _parse_nodes(text: str, name: str) -> Node | None:
    """The node of the document, or None if it is empty. Raises ConfigError for invalid YAML."""
    if not _DIFFERS_IN_LIBYAML.search(text):
        # Errors are ignored here. The parser in Python finds them again, and its messages are those
        # that `_describe_syntax_error` understands.
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            return yaml.compose(text, Loader=_FastParser)
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"{name}:{line}: a control character is here: remove it"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        problem = f"{place}: {_describe_syntax_error(error)}"
    except (RecursionError, ValueError, OverflowError):  # such as the escape "\U00110000"
        problem = f"{name}: {_UNREADABLE_MESSAGE}"
    raise ConfigError(problem)


def _describe_syntax_error(error: yaml.MarkedYAMLError) -> str:
    """Describe a syntax error. Texts that PyYAML quotes are hidden, as they may be secrets."""
    problem = error.problem or "cannot be read"
    if error.context:
        problem = f"{error.context}, {problem}"
    for yaml_words, advice in _SYNTAX_ADVICE.items():
        if yaml_words in problem:
            return f"not valid YAML: {advice}"
    return f"not valid YAML: {_QUOTE.sub(_hide_quote, problem)}"


def _hide_quote(match: re.Match[str]) -> str:
    return match[0] if _HARMLESS_QUOTE.fullmatch(match[0]) else "..."


class _Builder:
    """Turns nodes into plain data, and collects lines, texts and problems in ``document``."""

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self.document = YamlDocument()
        self._name = name
        self._environ = environ
        self._value_count = 0

    def build(self, node: Node, path: KeyPath, line: int) -> object:
        """Return the value of the node at this path.

        The value is None if the node has a tag that is not allowed. Raises ConfigError if the
        document has too many values.
        """
        self._count_against_limit(node)
        self.document.lines[path] = line
        if node.tag not in _ALLOWED_TAGS and not _has_tag_by_parser(node):
            self._report(
                path, line, "a tag is not allowed here; put a value that begins with ! in quotes"
            )
            return None
        if isinstance(node, ScalarNode):
            return self._scalar(node, path, line)
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        items = []
        for index, item in enumerate(node.value):
            items.append(self.build(item, (*path, index), item.start_mark.line + 1))
        return items

    def _count_against_limit(self, node: Node) -> None:
        self._value_count += 1
        if self._value_count > _MAX_VALUES:
            raise ConfigError(
                f"{self._name}:{node.start_mark.line + 1}: there are more than {_MAX_VALUES} "
                "values, including those of aliases"
            )

    def _mapping(self, node: MappingNode, path: KeyPath) -> PlacedMapping:
        """Return the values by key. Keys that are no text or occur twice are reported.

        A merged key (``<<: *anchor``) may occur again. `_pairs` yields merged keys last, so the
        mapping's own key is used.
        """
        built = PlacedMapping()
        built.path = path
        for key, value, is_merged in self._pairs(node, path):
            name = self._key(key, path)
            line = key.start_mark.line + 1
            if name is not None and name not in built:
                built[name] = self.build(value, (*path, name), line)
            elif name is not None and not is_merged:
                first = self.document.lines[*path, name]
                self._report(
                    (*path, name),
                    line,
                    f"is given twice, first on line {first}: remove one of them",
                )
        return built

    def _pairs(self, node: MappingNode, path: KeyPath) -> Iterator[tuple[Node, Node, bool]]:
        """Yield each key, its value, and whether it was merged by ``<<: *anchor``.

        Merged keys come last, because the first one of several equal keys is used.
        """
        merged_nodes: list[Node] = []
        for key, value in node.value:
            self._count_against_limit(key)
            if key.tag == "tag:yaml.org,2002:merge":
                merged_nodes += value.value if isinstance(value, yaml.SequenceNode) else [value]
            else:
                yield key, value, False
        for merged in merged_nodes:
            if isinstance(merged, MappingNode):
                for key, value, _ in self._pairs(merged, path):
                    yield key, value, True
            else:
                self._report(
                    path,
                    merged.start_mark.line + 1,
                    "<< needs an alias of a mapping: write for example <<: *defaults",
                )

    def _key(self, node: Node, path: KeyPath) -> str | None:
        """Return the key's text. Reports a key that is no text, and returns None."""
        if not isinstance(node, ScalarNode):
            message = "a key must be plain text; put text with {braces} in quotes"
        elif _FORBIDDEN_CHARACTERS.search(node.value):
            message = _FORBIDDEN_MESSAGE
        else:
            return str(node.value)
        self._report(path, node.start_mark.line + 1, message)
        return None

    def _scalar(self, node: ScalarNode, path: KeyPath, line: int) -> object:
        """Return the value of the scalar: text, a number, a boolean or None.

        If a variable cannot be expanded, this is reported, and the text is returned unchanged. A
        forbidden character is reported, and becomes a question mark.
        """
        try:
            text, variable_values = _expand_variables(node.value, self._environ)
        except ValueError as error:
            self._report(path, line, str(error))
            return node.value
        # The values of variables may be secrets, so `report_lines` hides them.
        self.document.expanded.update(variable_values)
        if _FORBIDDEN_CHARACTERS.search(text):
            self._report(path, line, _FORBIDDEN_MESSAGE)
            return _FORBIDDEN_CHARACTERS.sub("?", text)
        # A value without quotes has the style None, or "" in libyaml. It may mean a number, such as
        # 2024. But settings of type text need the text as it was written.
        if not node.style:
            self.document.texts[path] = text
        return _typed_value(node, text, is_variable=bool(variable_values))

    def _report(self, path: KeyPath, line: int, message: str) -> None:
        self.document.problems.append(Problem(path, message, line))


def _has_tag_by_parser(node: Node) -> bool:
    """Whether the file has no tag here, but the parser added one by the rules of YAML 1.1.

    The parser does so for dates, ``=`` and ``<<``.
    """
    return isinstance(node, ScalarNode) and not node.style and node.tag in _TAGS_BY_PARSER


def _typed_value(node: ScalarNode, scalar: str, *, is_variable: bool) -> object:
    """Return the value that ``scalar`` means: text, a number, a boolean or None.

    ``scalar`` is the node's text with its variables expanded.
    """
    # Only values in quotes or in a block have a style. They are text.
    is_quoted = bool(node.style)
    # If the value has a variable, its tag is ignored. The parser chose the tag before the variable
    # was expanded.
    has_string_tag = node.tag == _STRING_TAG and not is_variable
    if is_quoted or has_string_tag:
        return scalar
    # An empty variable means empty text, never null.
    if not is_variable and _NULL.fullmatch(scalar):
        return None
    if _BOOL.fullmatch(scalar):
        return scalar.lower() == "true"
    if _INT.fullmatch(scalar):
        return int(scalar)
    if _FLOAT.fullmatch(scalar):
        return float(scalar.replace(".inf", "inf").replace(".nan", "nan"))
    return scalar
