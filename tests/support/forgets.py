"""Streams in which persons are forgotten, under any algorithm, with what is stored of the shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypothesis import strategies as st

from tests.support.source import Forget, Push, Step
from tests.support.strategies import Case


def with_forgets(steps: Sequence[Step], forgets: Mapping[int, tuple[int, ...]]) -> Iterator[Step]:
    """Yield the same stream where some persons are forgotten once so many tuples have come, however it is cut."""
    came = 0
    for step in steps:
        if not isinstance(step, Push):
            yield step
            continue
        rest = step.rows
        for number in sorted(n for n in forgets if came < n <= came + len(step.rows)):
            part, rest = rest[: number - came], rest[number - came :]
            came += len(part)
            yield Push(part, step.watermark)
            yield Forget(forgets[number])
        came += len(rest)
        yield Push(rest, step.watermark)


@st.composite
def forgets_of(draw: st.DrawFn, case: Case) -> dict[int, tuple[int, ...]]:
    """Whom to forget after how many tuples: some who have come lately, and some who never come."""
    found: dict[int, tuple[int, ...]] = {}
    if case.rows:
        for number in draw(st.lists(st.integers(1, len(case.rows)), max_size=6, unique=True)):
            back = draw(st.lists(st.integers(1, 12), max_size=3))
            lately = [case.rows[max(number - steps, 0)].subject for steps in back]
            found[number] = (*(who for who in lately if isinstance(who, int)), 10**6)
    return found
