"""Parts of settings for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crenel.anonymity.model.privacy import Sensitive
from crenel.anonymity.model.privacy_model import PrivacyModel
from crenel.anonymity.model.reference import Reference


def models_of(pairs: Iterable[tuple[PrivacyModel, Any]]) -> dict[str, Any]:
    """Return the parameters of privacy models as ``Privacy.models`` takes them."""
    return {
        model.name: dict(zip(model.fields, parameter, strict=True)) if model.fields else parameter
        for model, parameter in pairs
    }


def sensitive_of(
    least: int | None, pairs: Iterable[tuple[PrivacyModel, Any]], compared: Reference | None = None
) -> Sensitive:
    """Return the privacy models of a column; ``compared``: where not the stream so far, with its distances."""
    if compared is None or compared.of_stream:
        return Sensitive(l=least, models=models_of(pairs))
    return Sensitive(
        l=least,
        models=models_of(pairs),
        reference=compared,
        distance=compared.distance,
        hierarchy=compared.hierarchy,
    )
