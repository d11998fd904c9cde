"""Configuration sections of algorithms and fields of privacy models, generated from their records."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast, get_args, get_type_hints

from pydantic import Field, create_model, model_validator

from crenel.anonymity.algorithm import Algorithm, Setting
from crenel.anonymity.algorithm import Section as Part
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.privacy_model import ConfiguredModels, PrivacyModel, known_privacy_models
from crenel.jobs.config.fields import Column, Duration, Natural, Positive, Real, Section

_KINDS: dict[str, Any] = {
    "positive": Positive,
    "natural": Natural,
    "share": Annotated[Real, Field(ge=0, le=1)],
    "weight": Annotated[Real, Field(ge=0)],
    "at least 2": Annotated[Real, Field(ge=2)],
    "above 0 to 1": Annotated[Real, Field(gt=0, le=1)],
    "duration": Duration,
    "clock duration": Duration,
    "weights": dict[Column, Annotated[Real, Field(ge=0)]],
    "regions": Annotated[str, Field(min_length=1)],
}


class AlgorithmSection(Section):
    """The section of one algorithm."""

    def core(self) -> Any:
        """Return the parameters; raise ``PolicyError`` where they contradict each other."""
        raise NotImplementedError


def section_of(algorithm: Algorithm) -> type[AlgorithmSection]:
    """Return the section model of an algorithm."""

    def core(self: AlgorithmSection) -> Any:
        return _parameters(algorithm, self)

    def possible(self: AlgorithmSection) -> AlgorithmSection:
        _parameters(algorithm, self)
        return self

    made = create_model(
        f"{algorithm.name.capitalize()}Section",
        __base__=AlgorithmSection,
        __validators__={"possible": cast(Any, model_validator(mode="after")(possible))},
        **_fields(algorithm, ""),
    )
    made.core = core  # type: ignore[method-assign]
    return cast(type[AlgorithmSection], made)


def _fields(algorithm: Algorithm, within: str) -> dict[str, Any]:
    """Return the fields of a section by name, in the order of the settings.

    ``within``: dotted path of the section and a dot, or empty.
    """
    sections = {section.path: section for section in algorithm.sections}
    found: dict[str, Any] = {}
    for setting in algorithm.settings:
        if not setting.path.startswith(within):
            continue
        name, dot, _ = setting.path.removeprefix(within).partition(".")
        if not dot:
            found[name] = _field(algorithm, setting)
        elif name not in found:
            section = sections[within + name]
            model = create_model(
                "".join(part.capitalize() for part in (algorithm.name, *section.path.split("."))) + "Section",
                __base__=Section,
                __validators__={"filled": cast(Any, model_validator(mode="after")(_filled(algorithm, section)))},
                **_fields(algorithm, f"{section.path}."),
            )
            about = Field(description=section.description)
            found[name] = (model, about) if section.required else (model | None, _with_default(None, section))
    return found


def _filled(algorithm: Algorithm, section: Part) -> Callable[[Section], Section]:
    def filled(self: Section) -> Section:
        unset = (name for name, field in type(self).model_fields.items() if field.default is None)
        if section.empty and all(getattr(self, name) is None for name in unset):
            raise PolicyError(f"{algorithm.name}.{section.path}: {section.empty}")
        return self

    return filled


def _field(algorithm: Algorithm, setting: Setting) -> tuple[Any, Any]:
    kind = Literal[setting.choices] if setting.kind == "choice" else _KINDS[setting.kind]
    if setting.required:
        return kind, Field(description=setting.description)
    default = _default(algorithm.parameters, setting.field.split("."))
    if setting.kind == "weights":
        default = dict(default)
    return (kind | None if default is None else kind), _with_default(default, setting)


def _with_default(default: Any, of: Any) -> Any:
    return Field(default, description=of.description)


def _default(kind: Any, path: list[str]) -> Any:
    """Return the default of a dataclass field, by its dotted name."""
    (field,) = [field for field in dataclasses.fields(kind) if field.name == path[0]]
    if len(path) > 1:
        return _default(_dataclass_of(kind, path[0]), path[1:])
    return None if field.default is dataclasses.MISSING else field.default


def _dataclass_of(kind: Any, name: str) -> Any:
    """Return the dataclass in a field's type."""
    hint = get_type_hints(kind)[name]
    return next(found for found in (hint, *get_args(hint)) if dataclasses.is_dataclass(found))


def _parameters(algorithm: Algorithm, section: Section) -> Any:
    values: dict[str, Any] = {}
    for setting in algorithm.settings:
        given, value = _given(section, setting.path)
        if setting.kind == "weights":
            value = tuple(value.items())
        at, *names = reversed(setting.field.split("."))
        inner: Any = values
        for name in reversed(names):
            inner = inner.setdefault(name, {}) if given else None
            if inner is None:
                break
        if inner is not None:
            inner[at] = value
    return _made(algorithm.parameters, values)


def _given(section: Any, path: str) -> tuple[bool, Any]:
    """Return whether all sections on the path to a setting are given, and its value; None where they are not."""
    for name in path.split("."):
        if section is None:
            return False, None
        section = getattr(section, name)
    return True, section


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    inner = {
        name: _made(_dataclass_of(kind, name), value) if isinstance(value, dict) else value
        for name, value in values.items()
    }
    return kind(**inner)


def model_field(model: PrivacyModel) -> tuple[Any, Any]:
    """Return type and description of the field for a privacy model's parameter."""
    if not model.fields:
        return Real | None, Field(None, description=model.parameter)
    numbers: dict[str, Any] = {name: (Real, Field(description=words)) for name, words in model.fields.items()}
    section = create_model(f"{model.name.capitalize()}Section", __base__=Section, **numbers)
    return section | None, Field(None, description=model.parameter)


def further_of(section: Section) -> ConfiguredModels:
    """Return the privacy models beside k and l that a section requests."""
    known = known_privacy_models()
    given = {name: getattr(section, name) for name in known if name in type(section).model_fields}
    return tuple((known[name], _parameter_of(known[name], value)) for name, value in given.items() if value is not None)


def _parameter_of(model: PrivacyModel, value: Any) -> Any:
    return tuple(getattr(value, name) for name in model.fields) if model.fields else value
