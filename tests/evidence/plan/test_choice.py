"""Choice among settings."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from crenel.evidence.plan.choice import ALIKE, Figures, Wanted, choose, front


@dataclass(frozen=True)
class Named:
    name: int
    k: int = 10
    l: int = 1  # noqa: E741


shares = st.sampled_from((0.0, 0.1, 0.2, 0.25, 0.5, 1.0))
delays = st.sampled_from((0.0, 10.0, 20.0, 500.0, inf))
settings = st.lists(
    st.tuples(
        st.sampled_from((5, 10, 20)), st.sampled_from((1, 2)), st.builds(Figures, shares, shares, delays, delays)
    ),
    max_size=12,
).map(lambda found: {Named(i, *of[:2]): of[2] for i, of in enumerate(found)})
wanteds = st.builds(Wanted, shares, shares, delays, st.sampled_from((1, 10)), st.sampled_from((1, 2)), st.booleans())


@given(settings, wanteds)
def test_what_is_chosen_keeps_what_is_wanted_and_costs_least(held: dict[Named, Figures], wanted: Wanted) -> None:
    chosen = choose(held, wanted)
    enough = [setting for setting in held if setting.k >= wanted.k and setting.l >= wanted.l]
    keep = [
        setting
        for setting in enough
        if held[setting].loss <= wanted.loss
        and held[setting].suppressed <= wanted.suppressed
        and held[setting].suppressed < 1
        and held[setting].delay <= wanted.delay
    ]
    assert (chosen is None) == (not enough)
    if chosen is None:
        return
    assert held[chosen.setting] == chosen.figures
    assert (not chosen.missed) == bool(keep)
    assert chosen.setting in (keep or enough)
    if keep:
        prices = [held[s].delay if wanted.sooner else held[s].cost for s in keep]
        mine = chosen.figures.delay if wanted.sooner else chosen.figures.cost
        assert mine <= min(prices) * (1 + ALIKE)


@given(settings)
def test_the_front_is_what_none_with_the_same_promises_beats(held: dict[Named, Figures]) -> None:
    best = front(held)
    releasing = {s: (f.loss, f.suppressed, f.delay) for s, f in held.items() if f.suppressed < 1}
    assert best <= releasing.keys()
    for setting, mine in releasing.items():
        better = [
            other
            for other, costs in releasing.items()
            if (other.k, other.l) == (setting.k, setting.l)
            and costs != mine
            and all(other_cost <= ours for other_cost, ours in zip(costs, mine, strict=True))
        ]
        assert (setting in best) == (not better)


def test_of_settings_that_are_alike_the_first_is_taken() -> None:
    held = {Named(0): Figures(0.201, 0, 10, 5), Named(1): Figures(0.2, 0, 10, 5), Named(2): Figures(0.15, 0.2, 9, 5)}
    chosen = choose(held, Wanted(suppressed=0.5))
    assert chosen is not None
    assert chosen.setting == Named(0)  # what suppresses more has lost more


def test_where_nothing_meets_what_is_wanted_the_nearest_tells_by_how_much() -> None:
    held = {Named(0): Figures(0.4, 0.0, 10, 5), Named(1): Figures(0.22, 0.0, 10, 5), Named(2): Figures(0.1, 0, 90, 5)}
    chosen = choose(held, Wanted(loss=0.2, delay=12))
    assert chosen is not None
    assert chosen.setting == Named(1)
    assert chosen.missed.keys() == {"loss"}
    assert abs(chosen.missed["loss"] - 1.1) < 1e-9


def test_no_setting_that_promises_less_is_chosen() -> None:
    assert choose({Named(0, k=5): Figures(0, 0, 0, 0)}, Wanted(k=10)) is None
