"""Configuration fields of privacy models, generated from their records."""

from __future__ import annotations

from typing import Any

from pydantic import Field, create_model

from crenel.anonymity.model.privacy_model import Asked, PrivacyModel, known_privacy_models
from crenel.jobs.config.fields import Real, Section


def promise_field(promise: PrivacyModel) -> tuple[Any, Any]:
    """Return type and description of the field for a privacy model's parameter."""
    if not promise.fields:
        return Real | None, Field(None, description=promise.parameter)
    numbers: dict[str, Any] = {name: (Real, Field(description=words)) for name, words in promise.fields.items()}
    section = create_model(f"{promise.name.capitalize()}Section", __base__=Section, **numbers)
    return section | None, Field(None, description=promise.parameter)


def further_of(section: Section) -> Asked:
    """Return the privacy models beside k and l that a section requests."""
    known = known_privacy_models()
    given = {name: getattr(section, name) for name in known if name in type(section).model_fields}
    return tuple((known[name], _parameter(known[name], value)) for name, value in given.items() if value is not None)


def _parameter(promise: PrivacyModel, value: Any) -> Any:
    return tuple(getattr(value, name) for name in promise.fields) if promise.fields else value
