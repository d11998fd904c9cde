"""Shortfall by each privacy model for counts of persons, against exact numbers."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.builtin import ALPHA, BETA, ENTROPY_L, RECURSIVE, T
from crenel.anonymity.model.privacy_model import Parameter, PrivacyModel
from crenel.anonymity.model.reference import Reference
from tests.support.example_counts import LAWS
from tests.support.sensitive import keeps, kept, picks

tenths = st.integers(1, 60).map(lambda tenth: tenth / 10)
model_choices: st.SearchStrategy[tuple[PrivacyModel, Parameter]] = st.one_of(
    st.tuples(st.just(ALPHA), st.integers(1, 100).map(lambda hundredth: hundredth / 100)),
    st.tuples(st.just(ENTROPY_L), tenths.filter(lambda l: l >= 1)),  # noqa: E741
    st.tuples(st.just(RECURSIVE), st.tuples(tenths, st.integers(2, 5).map(float))),
)
counted = st.lists(st.integers(1, 60), min_size=1, max_size=8)


def numbers(parameter: Parameter) -> tuple[float, ...]:
    return parameter if isinstance(parameter, tuple) else (parameter,)


def lacks(model: PrivacyModel, parameter: Parameter, counts: list[int]) -> float:
    falling = np.array(sorted(counts, reverse=True), np.int64)
    return model.lacking(int(falling.sum()), falling, np.array(numbers(parameter)))


@given(model_choices, counted)
@LAWS
def test_nothing_is_lacking_just_where_the_promise_is_kept(
    of: tuple[PrivacyModel, Parameter], counts: list[int]
) -> None:
    model, parameter = of
    found = lacks(model, parameter, counts)
    assert (found == 0.0) == keeps(model.name, numbers(parameter), sorted(counts, reverse=True))
    assert found >= 0.0
    if found == 0.0:
        assert len(counts) >= model.least_values(parameter)


@pytest.mark.parametrize("values", range(1, 12))
@pytest.mark.parametrize("persons", [1, 3, 7, 10, 49])
def test_values_that_are_equally_common_keep_what_they_just_keep(values: int, persons: int) -> None:
    even = [persons] * values
    assert lacks(ENTROPY_L, float(values), even) == 0.0
    assert lacks(ENTROPY_L, values + 0.001, even) > 0.0
    assert lacks(ALPHA, 1 / values, even) == 0.0
    assert ALPHA.least_values(1 / values) == values
    if values > 1:
        tail = values - 1
        assert lacks(RECURSIVE, (1 / tail, 2.0), even) > 0.0  # equal is not below
        assert lacks(RECURSIVE, (1 / tail + 0.001, 2.0), even) == 0.0


compared_choices = st.one_of(
    st.tuples(st.just(T), st.integers(1, 9).map(lambda tenth: tenth / 10)), st.tuples(st.just(BETA), tenths)
)


@given(st.one_of(model_choices, compared_choices), st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any))
@LAWS
def test_no_part_with_fewer_persons_removed_than_stated_keeps_a_promise(
    of: tuple[PrivacyModel, Parameter], counts: list[int]
) -> None:
    model, parameter = of

    def shortfall(held: tuple[int, ...]) -> float:
        if not model.compares:
            return lacks(model, parameter, [count for count in held if count])
        rows = np.flatnonzero(held)
        persons, counts, shares = sum(held), np.array(held)[rows], (0.5, 0.3, 0.2)
        table = np.array(model.table(Reference(("a", "b", "c"), shares)))
        return model.lacking(persons, counts, np.array(numbers(parameter)), rows, table)

    persons, lacking = sum(counts), shortfall(tuple(counts))
    if lacking == 0.0:
        return
    assert model.least_removed is not None
    (stated,) = model.least_removed(np.array([persons]), np.array([lacking]), parameter)
    for part in product(*(range(count + 1) for count in counts)):
        if any(part) and shortfall(part) == 0.0:
            assert persons - sum(part) >= stated - 1e-9


@given(model_choices, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6))
@LAWS
def test_two_sets_that_keep_a_promise_keep_it_together(
    of: tuple[PrivacyModel, Parameter], counts: list[tuple[int, int]]
) -> None:
    model, parameter = of
    one, other = ([pair[i] for pair in counts if pair[i]] for i in (0, 1))
    if one and other and lacks(model, parameter, one) == 0.0 == lacks(model, parameter, other):
        assert lacks(model, parameter, [sum(pair) for pair in counts if sum(pair)]) == 0.0


def test_one_tuple_more_may_break_each_of_them() -> None:
    for model, parameter in ((ALPHA, 0.5), (ENTROPY_L, 2.0), (RECURSIVE, (1.1, 2.0))):
        assert lacks(model, parameter, [3, 3]) == 0.0
        assert lacks(model, parameter, [4, 3]) > 0.0


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcd")), min_size=1, max_size=9),
    st.sampled_from(
        [(ALPHA, 0.5), (ENTROPY_L, 2.0), (ENTROPY_L, 1.5), (RECURSIVE, (2.0, 2.0)), (RECURSIVE, (1.0, 3.0))]
    ),
)
@LAWS
def test_the_judge_knows_the_worst_pick(rows: list[tuple[int, str]], of: tuple[PrivacyModel, Parameter]) -> None:
    """Against all ways to pick a value of each person, not only those that it looks at."""
    model, parameter = of
    held: dict[int, set[str]] = {}
    for who, value in rows:
        held.setdefault(who, set()).add(value)
    every = (sorted(Counter(pick).values(), reverse=True) for pick in product(*map(sorted, held.values())))
    assert kept(model.name, numbers(parameter), rows) == all(
        keeps(model.name, numbers(parameter), counts) for counts in every
    )
    # The counts of compiled code are no less uneven than any pick.
    by_value = sorted(Counter(value for values in held.values() for value in values).values(), reverse=True)
    left, bound = len(held), []
    for count in by_value:
        bound.append(min(count, left))
        left -= bound[-1]
    bound = [count for count in bound if count]
    if lacks(model, parameter, bound) == 0.0:
        assert all(keeps(model.name, numbers(parameter), sorted(p.values(), reverse=True)) for p in picks(rows))


references = st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any)
compared = st.one_of(
    st.tuples(st.just(T), st.integers(1, 20).map(lambda part: part / 20)),
    st.tuples(st.just(BETA), st.integers(1, 40).map(lambda part: part / 10)),
)


def lacks_beside(of: tuple[PrivacyModel, float], rows: list[tuple[int, str]], shares: dict[str, float]) -> float:
    """Return the shortfall by the core; all persons count for each value, those not in the reference first."""
    model, limit = of
    counts = Counter(value for _, value in set(rows))
    place = {value: i for i, value in enumerate(shares)}
    values = sorted(counts, key=lambda value: place.get(value, -1))
    return model.lacking(
        len({who for who, _ in rows}),
        np.array([counts[value] for value in values], np.int64),
        np.array([limit]),
        np.array([place.get(value, -1) for value in values], np.int64),
        np.array(model.table(Reference(tuple(shares), tuple(shares.values())))),
    )


@given(compared, references, st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcde")), min_size=1, max_size=9))
@LAWS
def test_nothing_is_lacking_beside_a_reference_only_where_every_pick_keeps_the_promise(
    of: tuple[PrivacyModel, float], parts: list[int], rows: list[tuple[int, str]]
) -> None:
    model, limit = of
    shares = {"abcd"[i]: part / sum(parts) for i, part in enumerate(parts)}
    found = lacks_beside(of, rows, shares)
    assert 0.0 <= found < np.inf
    judged = kept(model.name, [limit], rows, shares)
    if found == 0.0:
        assert judged
    if len(dict(rows)) == len(set(rows)) or model is BETA:  # each pick, or each value of one, is an extreme
        assert (found == 0.0) == judged


@given(compared, references, *(st.lists(st.sampled_from("abcd"), min_size=1, max_size=9) for _ in range(2)))
@LAWS
def test_two_sets_that_are_close_to_a_reference_are_so_together(
    of: tuple[PrivacyModel, float], parts: list[int], one: list[str], other: list[str]
) -> None:
    shares = {"abcd"[i]: part / sum(parts) for i, part in enumerate(parts)}
    both = [*one, *other]
    apart = [lacks_beside(of, list(enumerate(values)), shares) for values in (one, other)]
    if apart == [0.0, 0.0]:
        assert lacks_beside(of, list(enumerate(both)), shares) == 0.0


def test_a_release_that_is_as_the_reference_lacks_nothing_and_one_person_more_may_break_it() -> None:
    shares = {"a": 0.5, "b": 0.3, "c": 0.2}
    even = list(enumerate("aaaaabbbcc"))
    for model, limit in ((T, 0.02), (BETA, 0.1)):
        assert lacks_beside((model, limit), even, shares) == 0.0
        assert lacks_beside((model, limit), [*even, (10, "c")], shares) > 0.0
    assert lacks_beside((BETA, 0.36), [*even, (10, "c")], shares) > 0.0  # 3 of 11 are 1.3636 times a fifth
    assert lacks_beside((BETA, 0.37), [*even, (10, "c")], shares) == 0.0
    assert lacks_beside((T, 0.5), even, {"a": 1.0}) == 0.0
    assert lacks_beside((T, 0.499), even, {"a": 1.0}) > 0.0
    assert lacks_beside((BETA, 1e6), even, {"a": 1.0}) > 0.0  # of b and c the reference knows nothing
