"""Options that set exactly one of several kinds. Installed packages may add kinds."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from monitor.boundary.options import Options
from monitor.boundary.plugins import Registry

_T = TypeVar("_T")
_OneOfT = TypeVar("_OneOfT", bound="OneOf")

Kinds = Mapping[str, tuple[type[Options], str | None]]
"""The options of each kind and their description, by the kind's name."""


class OneOf(Options):
    """Options that must set exactly one of several fields, such as ``http: {...}``.

    The fields in ``also`` may be set in addition. If the file names a kind of an installed package,
    `with_installed` makes a class that has a field for this kind.
    """

    also: ClassVar[frozenset[str]] = frozenset()
    installed: ClassVar[Callable[[str | None], Kinds]] = lambda _: {}  # see `Registry.installed`

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        """Return the names of the fields. Exactly one of these fields must have a value."""
        return tuple(name for name in cls.model_fields if name not in cls.also)

    @classmethod
    def file_keys(cls) -> list[str]:
        """Return the keys as written in the file, including the kinds of installed packages."""
        extended = cls.with_installed()
        return super(OneOf, extended).file_keys()

    @property
    def kind(self) -> str:
        """The name of the field that has a value."""
        return next(name for name in self.choices() if getattr(self, name) is not None)

    @property
    def kind_options(self) -> Any:  # noqa: ANN401 - options of any kind
        """The value of the field `kind`: the options of this kind."""
        return getattr(self, self.kind)

    @classmethod
    def with_installed(cls, name: object = None) -> type[Self]:
        """Return a class with a further field for the plugin of that name.

        If ``name`` is None, the class has fields for all plugins. Raises PluginError if the named
        plugin cannot be used.
        """
        if name in cls.model_fields or not isinstance(name, str | None):
            return cls
        kinds = cls.installed(name).items()
        further = tuple((kind, entry) for kind, entry in kinds if kind not in cls.model_fields)
        return _add_kinds(cls, further) if further else cls

    @model_validator(mode="wrap")
    @classmethod
    def _take_installed(
        cls,
        data: Any,  # noqa: ANN401 - JSON
        handler: ModelWrapValidatorHandler[Self],
        info: ValidationInfo,
    ) -> Self:
        if isinstance(data, Mapping):
            for name in data:
                extended = cls.with_installed(name)
                if extended is not cls:
                    return extended.model_validate(data, context=info.context)
        return handler(data)

    def _problems(self) -> Iterator[str]:
        names = [name for name in self.choices() if getattr(self, name) is not None]
        if len(names) == 1:
            return
        problem = f"give exactly one of {', '.join(self.with_installed().choices())}"
        if names:
            problem += f"; found {' and '.join(names)}"
        yield problem

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Require exactly one field in the schema too, including kinds of installed packages."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        kinds = cls.installed(None)
        for name, (options, about) in kinds.items():
            schema["properties"][name] = {
                **handler(options.__pydantic_core_schema__),
                "description": about,
            }
        return {**schema, "oneOf": [{"required": [name]} for name in (*cls.choices(), *kinds)]}


def with_kinds(
    registry: Registry[_T], kinds_of: Callable[[Mapping[str, _T]], Kinds]
) -> Callable[[type[_OneOfT]], type[_OneOfT]]:
    """For each kind of a registry, add an optional field to a class of options."""

    def decorate(model: type[_OneOfT]) -> type[_OneOfT]:
        extended = _add_kinds(model, tuple(kinds_of(registry).items()))
        extended.installed = lambda name: kinds_of(registry.installed(name))
        return extended

    return decorate


@cache
def _add_kinds(
    model: type[_OneOfT], kinds: tuple[tuple[str, tuple[type[Options], str | None]], ...]
) -> type[_OneOfT]:
    fields: dict[str, Any] = {
        kind: (options | None, Field(default=None, description=about))
        for kind, (options, about) in kinds
    }
    # Fields of later base classes come first, so kinds come before the other fields of the class.
    bases: Any = (model, create_model(f"{model.__name__}Kinds", __base__=Options, **fields))
    extended: type[_OneOfT] = create_model(
        model.__name__,
        __base__=bases,
        __module__=model.__module__,
        __doc__=model.__doc__,
    )
    return extended
