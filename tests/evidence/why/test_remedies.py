"""Choice of the setting that saves most suppressed tuples."""

from __future__ import annotations

from typing import Any

from crenel.evidence.why.remedies import Remedies, Remedy

UNSEEN: Any = None


def remedy(kind: str, change: str, column: str | None = None, **suppressed: int) -> Remedy:
    return Remedy(kind, change, column, kind == "k", UNSEEN, suppressed, 0.5, {})


def found(*tried: Remedy) -> Remedies:
    return Remedies(UNSEEN, {"outlier": 10, "alpha": 100}, {}, False, tried, {})


def test_the_nearest_that_saves_more_than_half_is_named() -> None:
    half = remedy("delay", "longer", outlier=10, alpha=50)
    most, all_of = remedy("delay", "much longer", outlier=10, alpha=40), remedy("k", "lower k", outlier=0, alpha=0)
    analysis = found(half, most, all_of)
    assert analysis.nearest("alpha") is most
    assert analysis.nearest("outlier") is all_of
    assert found(half).nearest("alpha") is None


def test_what_is_suppressed_for_another_reason_in_its_place_is_not_saved() -> None:
    moved = remedy("delay", "longer", outlier=0, alpha=110)
    analysis = found(moved)
    assert analysis.saves(moved, "outlier") == 0
    assert analysis.nearest("outlier") is None


def test_of_several_attributes_the_one_that_saves_most_is_named() -> None:
    some = remedy("quasi_identifiers", "a dropped", "a", outlier=4, alpha=100)
    more = remedy("quasi_identifiers", "b dropped", "b", outlier=1, alpha=100)
    analysis = found(some, more, remedy("k", "lower k", outlier=0, alpha=0))
    assert analysis.nearest("outlier") is more
    assert analysis.omitted == {"a": some, "b": more}
