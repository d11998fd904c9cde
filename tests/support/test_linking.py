"""The judge of noised values can say no: who is near what was published, in classes that are written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from crenel.anonymity.model.attributes import Noised, Numeric
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Confidence, NoiseWithin, Privacy
from tests.support.linking import Linking, linking_of, linking_range
from tests.support.source import IDENTITY, Row

POLICY = Policy((Numeric("x"),), noised=(Noised("h", (0, 100), 1),), passthrough=(IDENTITY,), subject="who")


def linking(near: int = 2, epsilon: float = 10.0, least: float = 0.0) -> Linking:
    found = linking_of(POLICY, Privacy(3, 1, (), NoiseWithin(epsilon, least=least, confidence=Confidence(0.9, near))))
    assert found is not None
    return found


def rows(*heights: float, who: Sequence[int] | None = None) -> list[Row]:
    return [Row((0.0,), (h, i), subject=i if who is None else who[i]) for i, h in enumerate(heights)]


def test_a_linking_range_holds_noise_as_often_as_is_asked() -> None:
    # P(|noise| > r) is 2 q^(r + 1) / (1 + q): for q = 1 / 2 it is 2/3, 1/3, 1/6, 1/12.
    scale = 1 / 0.6931471805599453
    assert [linking_range(scale, beyond) for beyond in (0.7, 0.6, 0.3, 0.1)] == [0, 1, 2, 3]
    assert linking_range(0.0, 0.1) == 0


@pytest.mark.parametrize(
    ("published", "near", "much"),
    [
        (10, 2, False),  # 10 and 11 lie within 2.3 steps of it: the scale is 1, for a width of 10
        (14, 2, False),  # nobody does
        (17, 2, True),  # 20 would be one step too far away: 18 alone
        (10, 3, True),
    ],
)
def test_near_what_is_published_is_nobody_or_enough(published: int, near: int, much: bool) -> None:
    members = rows(10, 11, 18, 20, 20, who=(0, 1, 2, 2, 2))
    assert linking_range(1.0, 0.1) == 2
    shown = [[published, 0], *([14, i] for i in range(1, 5))]
    assert linking(near).shows_too_much(members, shown, [], whole=True) == much


def test_who_was_withheld_counts_where_it_was_of_the_class() -> None:
    members, (other,), shown = rows(10, 10, 20), rows(19), [[14, 0], [14, 1], [20, 2]]
    other = Row(other.values, (19, 9), subject=9)
    assert linking().shows_too_much(members, shown, [], whole=True)
    for whole in (True, False):
        assert not linking().shows_too_much(members, shown, [other], whole=whole)
    # One that is far away makes the scale larger, if it was of the class: 20 is near 14 then, and alone of 20 and 90.
    far, shown = Row((0.0,), (90, 9), subject=9), [[14, 0], [14, 1], [14, 2]]
    assert linking(4).shows_too_much(members, shown, [far], whole=True)
    assert not linking(4).shows_too_much(members, shown, [far], whole=False)


def test_in_a_class_of_equal_values_nobody_can_be_among_too_few() -> None:
    for least in (0.0, 0.02):
        same = rows(50, 50, 50)
        assert not linking(3, least=least).may_show_too_much(same[0], same)
        assert linking(3, least=least).may_show_too_much(same[0], rows(50, 50, 51))
    # Without noise it is published as it is, among all of its value.
    two = rows(50, 50, 50, who=(1, 1, 2))
    assert linking(3).may_show_too_much(two[0], two)
