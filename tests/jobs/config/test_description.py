"""A configuration in words, as ``crenel check`` shows it."""

from __future__ import annotations

import pytest

import crenel
from crenel.description import guarantee_lines, roles


def _settings(drop: list[str], confidence: crenel.Confidence | None) -> crenel.Settings:
    return crenel.Settings(
        policy=crenel.Policy(
            subject="person",
            quasi_identifiers={"age": crenel.Numeric((0, 110))},
            noised={"height": crenel.Noised(domain=(50, 250), step=1)},
            drop=drop,
        ),
        privacy=crenel.Privacy(k=5, noise_within_release=crenel.NoiseWithinRelease(epsilon=2, confidence=confidence)),
        algorithm=crenel.Nearest(crenel.Delay(tuples=100)),
    )


@pytest.mark.parametrize(("drop", "shown"), [([], "none"), (["name", "phone"], "name, phone")])
def test_dropped_columns_are_listed(drop: list[str], shown: str) -> None:
    found = dict(roles(_settings(drop, None)))
    assert found["drop"] == shown
    assert found["subject"] == "person"
    assert found["pass-through"] == "none"


def test_confidence_is_described_only_where_it_is_required() -> None:
    without, required = (
        [text for _, text in guarantee_lines(_settings([], confidence))]
        for confidence in (None, crenel.Confidence(c=0.99, k=5))
    )
    added = [text for text in required if text not in without]
    assert len(required) == len(without) + 1
    assert added == ["5 subjects within the linking range at 0.99, or none"]
