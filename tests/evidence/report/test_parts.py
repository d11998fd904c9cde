"""Parts of the page, against the same figures counted one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import log2

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crenel.anonymity import builtin as builtin_models
from crenel.anonymity.model.attributes import Categorical, Noised, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy, Pseudonym
from crenel.anonymity.model.privacy import NoiseWithinRelease, Persons, Privacy, SamplingAndNoise, Sensitive
from crenel.evidence.outputs import RunOutputs, values_of
from crenel.evidence.report.bins import bins_of_real, bins_of_whole, weighted_quantile
from crenel.evidence.report.context import share
from crenel.evidence.report.distributions import OTHERS, Came, axes, spreads
from crenel.evidence.report.losses import loss_by_attribute, loss_over_time
from crenel.evidence.report.releases import diversity, releases
from crenel.evidence.report.terms import terms
from tests.support.published import POLICY, START, TOWNS, K, Release, about, block, made_releases, outputs
from tests.support.settings import models_of

amounts = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 9)), min_size=1, max_size=30)


@given(amounts)
def test_bins_of_whole_numbers_hold_all_rows_each_where_it_belongs(found: list[tuple[int, int]]) -> None:
    values, rows = (np.array(part, np.int64) for part in zip(*found, strict=True))
    bins = bins_of_whole(values, rows)
    ends = [[int(end.replace(",", "")) for end in label.split(" to ")] for label, _ in bins]
    assert len(bins) <= 13
    for (low, *high), (_, amount) in zip(ends, bins, strict=True):
        assert amount == sum(n for value, n in found if low <= value <= (high or [low])[0])
    assert sum(amount for _, amount in bins) == rows.sum()


@example([(5e-324, 1)])
@given(st.lists(st.tuples(st.floats(0, 10), st.integers(1, 9)), min_size=1, max_size=30))
def test_bins_of_real_numbers_hold_all_rows(found: list[tuple[float, int]]) -> None:
    values, rows = np.array([v for v, _ in found]), np.array([n for _, n in found])
    bins = bins_of_real(values, rows)
    assert sum(amount for _, amount in bins) == rows.sum()
    assert len(bins) <= 13


@given(amounts, st.sampled_from((0.01, 0.5, 0.99)))
def test_a_quantile_is_the_least_value_that_so_many_do_not_exceed(found: list[tuple[int, int]], q: float) -> None:
    each = sorted(value for value, rows in found for _ in range(rows))
    if not each:
        return
    values, rows = (np.array(part, np.int64) for part in zip(*found, strict=True))
    # By exact shares: 0.99 x 100 is 99.
    rank = -(-Fraction(str(q)) * len(each) // 1)
    assert weighted_quantile(values, rows, q) == each[int(rank) - 1]


@given(made_releases(), st.booleans())
def test_diversity_is_that_of_rows_that_share_a_generalization(made: list[Release], audited: bool) -> None:
    made_outputs = outputs(made, audited=audited)
    found = diversity(releases(made_outputs, published=True), *values_of(made_outputs, "illness"))
    groups: dict[object, list[str]] = {}
    for one in made:
        groups.setdefault(one.shared, []).extend(t[3] for t in one.tuples)
    for one in made:
        if one.kind == "generalized":
            groups.pop(one.shared, None)
    whole = Counter(value for group in groups.values() for value in group)
    expected = []
    for group in groups.values():
        shares = {value: n / len(group) for value, n in Counter(group).items()}
        entropy = -sum(p * log2(p) for p in shares.values())
        distance = sum(abs(shares.get(value, 0) - n / whole.total()) for value, n in whole.items()) / 2
        expected.append((len(group), len(shares), round(entropy, 9) + 0.0, round(distance, 9) + 0.0))
    flattened = zip(found.rows, found.values, found.entropy.round(9), found.distance.round(9), strict=True)
    assert sorted((int(a), int(b), float(c), float(d)) for a, b, c, d in flattened) == sorted(expected)


@given(made_releases(), st.integers(2, 6), st.booleans())
def test_what_is_shown_of_the_input_holds_so_many_persons_or_more(made: list[Release], least: int, own: bool) -> None:
    left = releases(outputs(made), published=True)
    found = axes(left, POLICY)
    came = Came(found, POLICY)
    came.add(block(made))
    tuples = [t for one in made for t in one.tuples]
    for axis, spread in [(a, s) for s in spreads(found, came, least) for a in found if a.name == s.name]:
        assert spread.came is not None
        assert sum(spread.came) == len(tuples)
        assert sum(spread.left) == pytest.approx(left.tuples.sum())
        persons: dict[str, set[int]] = {}
        rows: Counter[str] = Counter()
        for one in tuples:
            label = label_of(axis.name, one, spread.labels)
            persons.setdefault(label, set()).add(one[4])
            rows[label] += 1
        assert [rows[label] for label in spread.labels] == list(spread.came)
        assert min(len(persons[label]) for label in spread.labels) >= least
        assert min(spread.left) + 1e-6 >= least


def label_of(name: str, one: tuple[int, int, int, str, int], labels: tuple[str, ...]) -> str:
    """Return the label that stands for a tuple's value, read as people read it."""
    if name == "town":
        group = TOWNS.labels[one[2]].split("-")[0]
        return group if group in labels else OTHERS
    value = one[0] if name == "age" else one[1]
    for label in labels:
        numbers = [int(word.replace(",", "")) for word in label.split() if word[0].isdigit()]
        if "below" in label:
            inside = value < numbers[0]
        elif "more" in label:
            inside = value >= numbers[0]
        else:
            inside = numbers[0] <= value <= numbers[-1]
        if inside:
            return label
    raise AssertionError(f"{value} is in none of {labels}")


@given(made_releases())
def test_what_left_is_spread_evenly_over_all_that_it_may_have_been(made: list[Release]) -> None:
    left = releases(outputs(made), published=True)
    by_name = {axis.name: axis for axis in axes(left, POLICY)}
    if (axis := by_name.get("age")) is None or axis.edges is None:
        return
    expected = np.zeros(len(axis.left))
    for one in (r for r in made if r.kind != "generalized"):
        low, high = int(one.shared[0]), int(one.shared[1])
        for value in range(low, high + 1):
            place = sum(value >= edge for edge in axis.edges)
            expected[place] += len(one.tuples) / (high + 1 - low)
    assert axis.left == pytest.approx(expected)


def test_values_of_a_flat_hierarchy_are_named_only_where_enough_persons_have_them() -> None:
    tree = from_paths([(f"v{i}", "any") for i in range(40)])
    policy = Policy({"town": Categorical(tree)})
    made = outputs([Release(((1, 1, 0, "flu", n), (1, 1, 0, "flu", n + 50)), "cluster", n) for n in range(30)])
    labels = [f"v{min(i, 20)}" for i in range(30)]
    released = [label for label in labels for _ in range(2)]
    assert made.audit is not None
    one = RunOutputs(policy, pa.table({"town": released}), made.audit.drop(["town"]).append_column("town", [labels]))
    found = axes(releases(one, published=False), policy)
    (spread,) = spreads(found, None, 5)
    assert spread.labels == ("v20", OTHERS)
    assert spread.left == (20.0, 40.0)


@given(made_releases())
def test_loss_over_time_is_the_loss_of_all(made: list[Release]) -> None:
    left = releases(outputs(made), published=True)
    parts = loss_over_time(left, 4)
    kept = [one for one in made if one.kind != "generalized"]
    rows = sum(len(one.tuples) for one in kept)
    if rows < 4:
        assert parts == []
        return
    assert sum(tuples for _, _, tuples in parts) == rows
    assert min(tuples for _, _, tuples in parts) >= 4
    whole = sum(one.loss * len(one.tuples) for one in kept)
    assert sum(loss * tuples for _, loss, tuples in parts) == pytest.approx(whole)
    assert all("01234" not in label for label, _, _ in parts)


@given(made_releases())
def test_loss_by_attribute_adds_up_to_that_of_the_releases(made: list[Release]) -> None:
    policy = Policy({"age": Numeric((0, 99)), "wage": Numeric((0, 10_000)), "town": Categorical(TOWNS)})
    left = releases(outputs(made), published=True)
    found = dict(loss_by_attribute(left, policy))
    kept = [one for one in made if one.kind != "generalized"]
    if not kept:
        assert found == {}
        return
    mean = sum(one.loss * len(one.tuples) for one in kept) / sum(len(one.tuples) for one in kept)
    assert sum(found.values()) / 3 == pytest.approx(mean)


@pytest.mark.parametrize(
    ("step", "first"),
    [(1000, "00:37:01"), (60_000, "01-01 00:37"), (3_600_000, "01-01 00:00"), (86_400_000, "2024-01-01")],
)
def test_parts_begin_at_round_times_and_not_when_somebody_came(step: int, first: str) -> None:
    made = [Release(((1, 1, 0, "flu", 1), (2, 1, 0, "gout", 2)), "cluster", 0) for _ in range(20)]
    kept = releases(outputs(made), published=True)
    time = START + 37 * 60_000 + 1234 + np.arange(20) * step
    found = loss_over_time(replace(kept, time=time), K)
    assert (len(found), found[0][0]) == (20, first)


def test_a_share_is_none_or_all_only_where_it_is() -> None:
    assert [share(part, 10_000) for part in (0, 1, 5, 5000, 9999, 10_000)] == [
        "0.0%",
        "<0.1%",
        "0.1%",
        "50.0%",
        ">99.9%",
        "100.0%",
    ]


def test_every_mechanism_has_its_terms() -> None:
    further = (
        (builtin_models.ALPHA, 0.5),
        (builtin_models.ENTROPY_L, 2.0),
        (builtin_models.RECURSIVE, (1.0, 2.0)),
        (builtin_models.T, 0.5),
        (builtin_models.BETA, 1.0),
    )
    privacy = Privacy(
        5,
        2,
        models=models_of(further),
        noise_within_release=NoiseWithinRelease(1.0),
        persons=Persons("lasting"),
        sensitive={"illness": Sensitive(l=3, models=models_of(((builtin_models.T, 0.2),)))},
    )
    policy = Policy(
        {"age": Numeric((0, 99), ends=5), "town": Categorical(TOWNS)},
        sensitive=("illness",),
        noised={"wage": Noised((0, 9))},
        drop=("name",),
        subject="person",
        pseudonym=Pseudonym("code", "release"),
    )
    given_ = about(privacy=privacy, sampling_and_noise=SamplingAndNoise(0.9, 100.0), published=False)
    found = {here: (iso, nist) for here, iso, nist in terms(policy, given_)}
    text = "\n".join(f"{here}: {iso}; {nist}" for here, (iso, nist) in found.items())
    for word in (
        *("masking", "pseudonymization", "sampling", "noise addition", "k-anonymity model", "l-diversity"),
        *("t-closeness", "local generalization", "rounding", "record suppression", "no technique applied"),
        *("alpha", "beta", "entropy_l", "recursive", "k and l over all rows of a person"),
    ):
        assert word in text
    assert "microaggregation" in str(list(terms(policy, about(representative=True))))
    assert "local suppression" in str(list(terms(policy, about(published=True))))
