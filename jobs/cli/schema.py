"""JSON Schema of the configuration file, from the classes that validate it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.model.explain import fields_of, sections
from crenel.anonymity.model.hierarchy_field import HierarchySection
from crenel.jobs.config.load import job_sections, sink_descriptions
from crenel.settings import Settings

Schema = dict[str, Any]

_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{"}
"""A value that an environment variable gives."""

_OTHER_FORM: Schema = {"not": {"type": "object"}}
"""A value in the place of a section, such as the path of a file."""


def configuration_schema() -> Schema:
    """Return the JSON Schema, draft 2020-12, of a configuration file.

    It has each field with its valid values in words, and refuses unknown fields and choices.
    ``crenel check`` validates more: ranges, types of numbers and contradictions.
    """
    hints, algorithms = get_type_hints(Settings, include_extras=True), known_algorithms()
    names = [f.name for f in dataclasses.fields(Settings) if f.name not in ("algorithm", "folder")]
    properties = {name: _field(FieldInfo.from_annotation(hints[name])) for name in names}
    properties["algorithm"] = _either({"enum": [*algorithms]}, _VARIABLE)
    properties |= {name: _section(kind) for name, kind in algorithms.items()}
    properties |= {name: _field(field) for name, field in fields_of(job_sections()).items()}
    sinks = {name: {"description": f"{meaning}: {values}"} for name, (values, meaning) in sink_descriptions().items()}
    properties["sinks"] = {"type": "object", "properties": sinks, "additionalProperties": False}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of Crenel",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _field(field: FieldInfo) -> Schema:
    schema = _value(field.annotation)
    return schema if field.description is None else {"description": field.description, **schema}


def _value(annotation: Any) -> Schema:
    """Return the schema of the values of a type; it allows any value but for sections, mappings and choices."""
    if get_origin(annotation) is dict:
        return _either({"type": "object", "additionalProperties": _value(get_args(annotation)[1])}, _OTHER_FORM)
    kinds = [*sections(annotation)]
    if len(kinds) > 1:
        return _either(*(_section(kind, type=kind.__name__.lower()) for kind in kinds), _OTHER_FORM)
    if kinds:
        return _either(_section(kinds[0]), _OTHER_FORM)
    is_union = get_origin(annotation) in (Union, UnionType)
    parts = [*get_args(annotation)] if is_union else [annotation]
    choices: list[Any] = [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]
    choices += [True, False] if bool in parts else []
    choices += [None] if choices and NoneType in parts else []
    return _either({"enum": choices}, _VARIABLE) if choices else {}


def _section(kind: type, **constants: str) -> Schema:
    fields: Mapping[str, FieldInfo] = fields_of(kind)
    properties = {name: _field(field) for name, field in fields.items() if field.init is not False}
    properties |= {name: {"const": value} for name, value in constants.items()}
    # A hierarchy may also be a mapping from each value to the labels above it.
    further: Any = {"type": "array"} if kind is HierarchySection else False
    return {"type": "object", "properties": properties, "required": [*constants], "additionalProperties": further}


def _either(*schemas: Schema) -> Schema:
    return {"anyOf": [*schemas]}
