"""Sets and representatives of classes: of all members, of no other value, and of whole classes only."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean, median
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.buffer.published_forms import MOST_LISTED, with_forms
from crenel.anonymity.buffer.release_buffer import AGAIN, CLUSTER, GENERALIZED, REUSED, WIDENED
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import ABSENT, Categorical, Numeric, by_name
from crenel.anonymity.model.errors import InvariantError, PolicyError
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.operators.output_columns import Generalization

LEAVES = 150
OTHER = from_paths([("x", "*"), ("y", "*")])
TREE = from_paths([(f"v{i}", f"g{i // 10}", "*") for i in range(LEAVES)])
OFFSETS = np.array([0, len(OTHER.labels)], np.int32)

Members = list[list[tuple[float, int]]]
"""Number and leaf of each member, class by class."""


def policy(number: Literal["mean", "median"], category: Literal["set", "mode"]) -> Policy:
    # A second attribute of each kind stands before the first in the arrays, and keeps its form.
    return Policy(
        {
            "other": Categorical(OTHER),
            "plain": Numeric(),
            "town": Categorical(TREE, publish=category),
            "age": Numeric(publish=number),
        }
    )


def releases(classes: Members, kind: int = CLUSTER) -> Releases:
    """Return classes as the core releases them, under intervals and lowest common ancestors."""
    sizes = [len(members) for members in classes]
    nothing, none = np.zeros(0, np.int64), np.zeros((len(sizes), 0))
    ages = [[age for age, _ in members] for members in classes]
    nodes = [
        TREE.lowest_common_ancestor(min(leaf for _, leaf in members), max(leaf for _, leaf in members))
        for members in classes
    ]
    return Releases(
        release_id=np.arange(len(sizes)),
        kind=np.full(len(sizes), kind, np.int8),
        subjects=np.array(sizes, np.int64),
        tuples=np.array(sizes, np.int64),
        diversity=none.astype(np.int64),
        loss=np.array([0.2 + TREE.loss[node] / 4 for node in nodes]),
        event_time=np.zeros(len(sizes), np.int64),
        lower=np.array([[0.0, min(of)] for of in ages]).reshape(-1, 2),
        upper=np.array([[9.0, max(of)] for of in ages]).reshape(-1, 2),
        node=np.array([[OTHER.root, node] for node in nodes], np.int32).reshape(-1, 2),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        members=(),
        linked=np.zeros(len(sizes), np.int64),
        noise_expected=none,
        noise_error=none,
        suppressed_reason=nothing.astype(np.int8),
        suppressed_position=nothing,
        suppressed_event_time=nothing,
    )


def published(of: Policy, classes: Members, found: Releases | None = None) -> Releases:
    """Return the same classes in the forms of a policy; their tuples lie in reverse order in the buffer."""
    members = [member for each in classes for member in each][::-1]
    numeric = np.array([[1.0, age] for age, _ in members]).reshape(-1, 2)
    leaf = np.array([[0, leaf + OFFSETS[1]] for _, leaf in members], np.int32).reshape(-1, 2)
    released = np.arange(len(members), dtype=np.int32)[::-1]
    found = releases(classes) if found is None else found
    return with_forms(found, of, released, numeric, leaf, OFFSETS, k=1, subject=None)


ages = st.floats(-1.7e308, 1.7e308, allow_nan=False)
some_classes = st.lists(
    st.lists(st.tuples(ages, st.integers(0, LEAVES - 1)), min_size=1, max_size=12), min_size=0, max_size=6
)


@given(some_classes)
def test_a_set_lists_the_values_of_all_members_and_no_other(classes: Members) -> None:
    found = published(policy("mean", "set"), classes)
    (listed,) = found.listed
    assert [text.split(";") for text in listed] == [
        [f"v{leaf}" for leaf in sorted({leaf for _, leaf in members})] for members in classes
    ]
    for text, loss, was in zip(listed, found.published_loss, releases(classes).loss, strict=True):
        assert loss == pytest.approx(0.2 + (len(text.split(";")) - 1) / (LEAVES - 1) / 4)
        assert loss <= was + 1e-12
    assert (found.node[:, 0] == OTHER.root).all()


@given(some_classes)
def test_a_representative_is_the_statistic_of_its_class(classes: Members) -> None:
    mean = published(policy("mean", "mode"), classes)
    middle = published(policy("median", "mode"), classes)
    for i, members in enumerate(classes):
        values = [age / 16 for age, _ in members]  # sixteenths, whose sum does not overflow here
        assert mean.lower[i, 1] / 16 == pytest.approx(fmean(values), rel=1e-9, abs=1e292)
        assert middle.lower[i, 1] / 16 == pytest.approx(median(values), rel=1e-9, abs=1e-300)
        counts = Counter(leaf for _, leaf in members)
        assert mean.node[i, 1] == min(counts, key=lambda leaf: (-counts[leaf], leaf))
        assert min(members)[0] <= mean.lower[i, 1] <= max(members)[0]
    for found in (mean, middle):
        assert (found.lower[:, 1] == found.upper[:, 1]).all()
        assert (found.lower[:, 0] == 0).all()
        assert (found.upper[:, 0] == 9).all()


@pytest.mark.parametrize("form", ["mean", "median"])
def test_a_representative_stands_for_k_persons_that_have_the_number(form: Literal["mean", "median"]) -> None:
    age = Numeric((0, 100), publish=form, missing="value").named("age")
    of = Policy(by_name((age,)), subject="who")
    (presence,) = of.categorical
    ages = [[7, 7, 9], [7, 7, None], [7, None, None], [None, None, None]]
    persons = [[1, 2, 2], [1, 1, 3], [1, 2, 3], [1, 2, 3]]
    members = [each for of_class in ages for each in of_class]
    leaf = np.array([[ABSENT if each is None else 1 - ABSENT] for each in members], np.int32)
    root = presence.hierarchy.root
    found = replace(
        releases([[(7.0, 0)] * 3] * 4),
        lower=np.full((4, 1), 7.0),
        upper=np.full((4, 1), 50.0),
        node=np.array([[1 - ABSENT], [root], [root], [ABSENT]], np.int32),
        loss=np.zeros(4),
    )
    numeric = np.array([[50.0 if each is None else each] for each in members])
    arguments = found, of, np.arange(12, dtype=np.int32), numeric, leaf, np.zeros(1, np.int32)
    mean = 23 / 3 if form == "mean" else 7
    for k, subject, wanted in (
        (2, np.array(persons, np.uint64).ravel(), [mean, None, None]),
        (2, None, [mean, 7, None]),
        (1, None, [mean, 7, 7]),
    ):
        shown = with_forms(*arguments, k=k, subject=subject)
        (values, flags) = Generalization(of, representative=False).values(shown.lower, shown.upper, shown.node)
        assert values == pytest.approx([*wanted, None])
        assert flags == ["no", "maybe", "maybe", "yes"]


def test_mean_of_whole_numbers_is_exact() -> None:
    assert published(policy("mean", "mode"), [[(age, 0) for age in (29.0, 30.0, 31.0)]]).lower[0, 1] == 30.0


def test_a_set_of_too_many_values_is_their_ancestor() -> None:
    classes = [[(0.0, leaf) for leaf in range(count)] for count in (MOST_LISTED, MOST_LISTED + 1)]
    found = published(policy("mean", "set"), classes)
    assert [len(text.split(";")) for text in found.listed[0]] == [MOST_LISTED, 1]
    assert found.listed[0][1] == "*"
    assert found.published_loss[1] == pytest.approx(releases(classes).loss[1])


@pytest.mark.parametrize("kind", [REUSED, AGAIN, WIDENED])
@pytest.mark.parametrize("category", ["set", "mode"])
def test_a_reused_generalization_has_no_form(kind: int, category: Literal["set", "mode"]) -> None:
    with pytest.raises(InvariantError, match="reused generalization"):
        published(policy("mean", category), [[(1.0, 2)]], releases([[(1.0, 2)]], kind))


def test_a_fully_generalized_tuple_is_in_the_set_of_all_values_and_has_no_representative() -> None:
    whole = releases([[(1.0, 2)]], GENERALIZED)
    whole = replace(whole, node=np.array([[OTHER.root, TREE.root]], np.int32))
    only_set = Policy(by_name((*policy("mean", "set").attributes[:3], Numeric().named("age"))))
    assert published(only_set, [[(1.0, 2)]], whole).listed == (["*"],)
    with pytest.raises(InvariantError, match="value of one tuple"):
        published(policy("mean", "set"), [[(1.0, 2)]], whole)


def test_a_policy_without_forms_changes_nothing() -> None:
    plain = Policy({"other": Categorical(OTHER), "plain": Numeric(), "town": Categorical(TREE), "age": Numeric()})
    found = releases([[(1.0, 2)]])
    assert published(plain, [[(1.0, 2)]], found) is found


@pytest.mark.parametrize("label", ["a;b", ""])
def test_labels_that_text_could_not_separate_are_refused(label: str) -> None:
    tree = from_paths([(label, "*"), ("c", "*")])
    assert Categorical(tree).publish == "ancestor"
    with pytest.raises(PolicyError, match="\n  publish: a set in text"):
        Categorical(tree, publish="set")
