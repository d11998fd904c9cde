"""Attacks on hand-made tables, where it can be told by hand how often they succeed; and their laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.builtin import ALPHA, BETA, ENTROPY_L, RECURSIVE, T
from crenel.anonymity.model.attributes import Categorical, Numeric, QuasiIdentifier, by_name
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.attack import disclosure, identity
from crenel.evidence.attack.attack_data import (
    Moments,
    Placement,
    Scene,
    Truth,
    groups,
    groups_at_moment,
    groups_by_moment,
    moments_of_order,
    placed,
    runs,
)
from crenel.evidence.attack.downcoding import downcode, downcode_placed
from crenel.evidence.attack.formation import learned_minimality
from crenel.evidence.attack.minimality import minimality
from crenel.evidence.attack.published_records import attack_outputs
from crenel.evidence.attack.queries import errors, median
from crenel.evidence.attack.replays import attack_replays
from crenel.evidence.attack.result import ALL, PLACED, Attack, AttackError, AttackResults, Effort, Tries, excess, wilson
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.replay import replay_outputs
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.state.block import NO_TIME, Block
from tests.evidence.test_replay import sample_of, setting_of
from tests.support.example_counts import FEW
from tests.support.settings import models_of
from tests.support.strategies import Case, cases

AGE = Numeric((0, 100)).named("age")

CHOOSING: tuple[Algorithm, ...] = (
    Castle(Delay(50)),
    Nearest(Delay(50)),
    Suhdsa(50),
    Mondrian(Window(50)),
    Ola(Window(50)),
)
"""Algorithms whose classes have sensitive values."""


def sample(
    values: Sequence[Sequence[float]],
    attributes: Sequence[QuasiIdentifier] = (AGE,),
    *,
    person: Sequence[int] | None = None,
    illness: Sequence[str] | None = None,
) -> Sample:
    """People by their numbers and leaves, in the order of the attributes; numeric ones come first."""
    count = len(values)
    illnesses = ["flu"] * count if illness is None else list(illness)
    numbers = sum(isinstance(a, Numeric) for a in attributes)
    policy = Policy(by_name(tuple(attributes)), sensitive=("illness",), subject=None if person is None else "person")
    points = np.array(values, np.float64).reshape(count, len(attributes))
    block = Block(
        shard=0,
        numeric=points[:, :numbers],
        categorical=points[:, numbers:].astype(np.int32),
        subject=None if person is None else np.array(person, np.uint64),
        sensitive=np.array([[hash(of) % 2**60] for of in illnesses], np.uint64),
        event_time=np.full(count, NO_TIME),
        members=pa.record_batch([pa.array(illnesses)], names=["illness"]),
    )
    return Sample.of_blocks(policy, [block])


def scene(of: Sample, released: dict[str, Sequence[object]], row: Sequence[int], left: Sequence[int] = ()) -> Scene:
    """Return published rows, their persons, and where it matters their times."""
    columns = {name: pa.array(values) for name, values in released.items()}
    columns["illness"] = of.tuples.members.column("illness").take(pa.array(row))
    found = Scene.of(RunOutputs(of.policy, pa.table(columns)), of)
    moments = Moments(np.arange(len(of)), np.array(left or [len(of)] * len(row)), 10**6)
    return replace(found, truth=Truth(np.array(row), moments, None))


def truth(of: Scene) -> Truth:
    assert of.truth is not None
    return of.truth


def reidentified(of: Scene, targets: Sequence[int], most: int = 1) -> Tries:
    random, seen = np.random.default_rng(0), groups(of)
    weight = identity.weights(seen, random)
    return identity.rank(of, truth(of), seen, weight, np.array(targets), most).within(most)


def test_a_release_of_one_person_is_reidentified_with_certainty() -> None:
    people = sample([[20], [30], [40]])
    alone = scene(people, {"age_min": [20.0, 30.0, 30.0], "age_max": [20.0, 40.0, 40.0]}, [0, 1, 2])
    assert reidentified(alone, [0]) == Tries(1, 1.0)
    assert reidentified(alone, [1, 2]) == Tries(2, 1.0)  # each by one half
    assert reidentified(alone, [1, 2], 5) == Tries(2, 2.0)
    assert identity.link(alone, truth(alone), groups(alone), np.array([0, 1, 2])) == Tries(3, 2.0)
    assert identity.link_unseen(groups(alone), np.array([0, 1, 2])) == Tries(3, 2.0)


def test_a_class_of_ten_gives_one_in_ten_and_others_who_fit_make_it_less() -> None:
    people = sample([[age] for age in range(20, 40)])
    ten = scene(people, {"age_min": [20.0] * 10, "age_max": [29.0] * 10}, range(10))
    assert reidentified(ten, range(10)).share == pytest.approx(0.1)
    assert reidentified(ten, range(10), 5).share == pytest.approx(0.5)
    assert identity.link(ten, truth(ten), groups(ten), np.arange(10)).share == pytest.approx(0.1)
    wide = scene(people, {"age_min": [20.0] * 10, "age_max": [39.0] * 10}, range(10))
    assert identity.link(wide, truth(wide), groups(wide), np.arange(10)).share == pytest.approx(0.05)


def test_of_a_person_with_several_rows_one_is_found_more_easily() -> None:
    people = sample([[20], [20], [20], [21]], person=[7, 7, 8, 9])
    four = scene(people, {"age_min": [20.0] * 4, "age_max": [21.0] * 4}, range(4))
    assert reidentified(four, [0]) == Tries(1, 0.5)
    assert reidentified(four, [2]) == Tries(1, 0.25)


def test_rows_that_left_apart_are_told_apart_by_who_knows_the_order() -> None:
    # All are alike; each leaves when three more have come.
    people = sample([[20]] * 10)
    rows = [0, 1, 2, 3, 4, 5, 6]
    same = scene(people, {"age_min": [20.0] * 7, "age_max": [20.0] * 7}, rows, [row + 3 for row in rows])
    assert reidentified(same, rows).share == pytest.approx(1 / 7)
    # Of three who came next to each other one is it; of the first there are but two.
    for within, expected in ((0, 1.0), (1, (6 / 3 + 1 / 2) / 7)):
        seen = groups_by_moment(same, truth(same).position, within, 2)
        assert identity.link(same, truth(same), seen, np.arange(7)).share == pytest.approx(expected)


def test_a_nearest_neighbor_is_taken_where_nobody_fits() -> None:
    people = sample([[10], [50], [90]])
    moved = scene(people, {"age_min": [12.0, 52.0], "age_max": [13.0, 60.0]}, [0, 1])
    assert identity.link(moved, truth(moved), groups(moved), np.arange(2)) == Tries(2, 2.0)
    assert reidentified(moved, [0, 1]) == Tries(2, 2.0)


def test_a_homogeneous_class_discloses() -> None:
    people = sample([[20], [21], [50], [51], [52]], illness=["hiv", "hiv", "flu", "hiv", "flu"])
    two = scene(people, {"age_min": [20.0] * 2 + [50.0] * 3, "age_max": [21.0] * 2 + [52.0] * 3}, range(5))
    seen, random = groups(two), np.random.default_rng(0)
    value = disclosure.values(two.outputs.released["illness"], people.tuples.members.column("illness"))
    found, _ = disclosure.homogeneity(seen, value, random)
    assert found == Tries(5, 2.0)
    right, usual = disclosure.disclose(seen, identity.weights(seen, random), two.points, value, value.known)
    assert right == Tries(5, 4.0)  # the second class has flu, but of one
    assert usual == Tries(5, 3.0)


def test_rows_that_fewer_people_fit_count_for_more() -> None:
    people = sample([[20], [21], *([age] for age in range(30, 50))], illness=["hiv", *["flu"] * 21])
    # 20 lies in a release of two, of hiv, and in one of three whom 22 people fit.
    released = {"age_min": [20.0] * 5, "age_max": [21.0] * 2 + [49.0] * 3}
    of = scene(people, released, [0, 0, 2, 3, 4])
    seen = groups(of)
    value = disclosure.values(of.outputs.released["illness"], people.tuples.members.column("illness"))
    weight = identity.weights(seen, np.random.default_rng(0))
    guessed = disclosure.guess(seen, weight, of.points[:1], value)
    assert guessed.tolist() == value.known[:1].tolist()
    assert disclosure.majorities(seen, value).tolist() == value.known[[0, 2]].tolist()


def test_values_are_compared_as_the_numbers_or_texts_that_they_are() -> None:
    value = disclosure.values(pa.chunked_array([["7.0", "7.50", "7.5", None]]), pa.array([7.5, 7.0, 9.0]))
    assert value.released.tolist()[1:3] == [0, 0]
    assert value.known.tolist()[0] == 0
    assert value.known[1] == value.released[0]
    assert value.known[2] not in value.released


def test_a_time_is_one_value_in_each_form_that_a_sink_gives_it() -> None:
    written = ["2024-02-29T08:00:00Z", "2024-02-29 08:00:00.5", "08:00:00", "1E-9", "0", "1E+2", "flu", "2E"]
    known = ["2024-02-29 08:00:00.000", "2024-02-29 08:00:00.500000", "08:00:00.000", "0.000000001", "0.00"]
    known += ["100.00", *written[6:]]
    value = disclosure.values(pa.chunked_array([written]), pa.array(known))
    assert value.released.tolist() == value.known.tolist()
    assert len(set(value.known)) == len(known)
    arrays = [f'["{text}"]' for text in written], [f'["{text}", null]' for text in known]
    value = disclosure.values(pa.chunked_array([arrays[0]]), pa.array(arrays[1]), arrays=True)
    assert value.holds(value.known, value.released).all()


def test_ends_and_halves_make_rows_finer() -> None:
    tree = from_paths([("a", "ab", "*"), ("b", "ab", "*"), ("c", "c-", "*")])
    people = sample([[20, 0], [30, 1], [40, 0], [40, 0]], (AGE, Categorical(tree).named("town")))
    four = {"age_min": [20.0] * 4, "age_max": [40.0] * 4, "town": ["ab"] * 4}
    wide = scene(people, four, range(4))
    found, chance = downcode(wide, truth(wide), groups(wide))
    assert found == Tries(4, 2.0)  # one is 20, or in b, and one the other
    assert chance.succeeded < 2
    same = sample([[20, 0]] * 4, (AGE, Categorical(tree).named("town")))
    exact = scene(same, {"age_min": [20.0] * 4, "age_max": [20.0] * 4, "town": ["a"] * 4}, range(4))
    assert downcode(exact, truth(exact), groups(exact))[0] == Tries(4, 0.0)  # nothing finer there is


@pytest.mark.parametrize(("grid", "refined"), [(None, 0.0), (10.0, 2.0), (50.0, 0.0)])
def test_ends_on_a_grid_tell_a_cell_and_no_value(grid: float | None, refined: float) -> None:
    people = sample([[21], [25], [39]], (replace(AGE, ends=grid),))
    ends = {None: (20.0, 40.0), 10.0: (20.0, 40.0), 50.0: (0.0, 50.0)}[grid]
    three = scene(people, {"age_min": [ends[0]] * 3, "age_max": [ends[1]] * 3}, range(3))
    assert downcode(three, truth(three), groups(three))[0].succeeded == refined


def test_generalizations_of_one_person_intersect() -> None:
    # Person 1 leaves with 2 and 3, then with 4 and 5; nobody else is in both.
    people = sample([[20], [21], [22], [60], [61], [62]], person=[1, 2, 3, 1, 4, 5])
    ends = {"age_min": [20.0] * 3 + [60.0] * 3, "age_max": [22.0] * 3 + [62.0] * 3}
    both = scene(people, ends, range(6))
    left = identity.intersect(both, both.person, np.random.default_rng(0), 10)
    assert left.tolist() == [1]
    everybody = scene(people, {"age_min": [20.0] * 6, "age_max": [62.0] * 6}, range(6))
    assert identity.intersect(everybody, everybody.person, np.random.default_rng(0), 10).tolist() == [5]


def rare_illness(count: int = 900, share: float = 0.2) -> Sample:
    """Return people with three numbers, of whom a share has the rarer of two illnesses."""
    random = np.random.default_rng(5)
    illness = random.choice(["a", "b"], count, p=[1 - share, share]).tolist()
    return sample(random.random((count, 3)).tolist(), [Numeric((0, 1)).named(name) for name in "xyz"], illness=illness)


def test_a_class_discloses_the_values_of_its_members_where_the_last_one_had_to_add_a_value() -> None:
    setting = ReplaySetting(Nearest(Delay(100)), Privacy(2, 2))  # without room for a pair
    found = minimality(rare_illness(600), setting, 0, 30, 12, np.random.default_rng(0))
    assert found.deduced.share == 1
    assert found.deduced.count > found.guessed.count / 10
    assert found.rare_deduced.succeeded > 0
    assert found.guessed.succeeded > found.usual.succeeded


def test_an_attacker_learns_from_other_records_how_classes_disclose_values() -> None:
    setting = ReplaySetting(Nearest(Delay(100)), Privacy(8, 1, models={"alpha": 0.9}))
    found = learned_minimality(rare_illness(3000, 0.1), setting, 0, np.random.default_rng(0))
    assert wilson(found.rare)[0] > 2 * found.usual_rare.share
    assert found.guessed.succeeded > found.usual.succeeded
    assert found.deduced.count > 50
    assert wilson(found.deduced)[1] > 0.95


def test_an_attacker_learns_little_where_lacking_values_come_in_pairs() -> None:
    setting = ReplaySetting(Nearest(Delay(100)), Privacy(8, 2))
    found = learned_minimality(rare_illness(3000, 0.1), setting, 0, np.random.default_rng(0))
    # With single members in the place of pairs, it is 95 of 239 classes, and 39 guesses more than by the usual value.
    assert wilson(found.rare)[1] < 3 * found.usual_rare.share
    assert found.guessed.succeeded < found.usual.succeeded + 0.005 * found.guessed.count
    assert found.deduced.succeeded == found.usual_deduced.succeeded
    assert found.rare_deduced.succeeded == 0


def test_classes_formed_without_regard_to_values_disclose_none() -> None:
    setting = ReplaySetting(Nearest(Delay(100)), Privacy(8))
    found = minimality(rare_illness(), setting, 0, 10, 10, np.random.default_rng(0))
    assert found.deduced.count == 0
    assert found.guessed.count >= 80
    learned = learned_minimality(rare_illness(3000), setting, 0, np.random.default_rng(0))
    assert wilson(learned.rare)[0] <= learned.usual_rare.share <= wilson(learned.rare)[1]
    assert learned.deduced.count < 0.02 * learned.guessed.count


@pytest.mark.parametrize("algorithm", CHOOSING, ids=[algorithm.name for algorithm in CHOOSING])
def test_minimality_attacks_each_algorithm_under_each_privacy_model(algorithm: Algorithm) -> None:
    tree = from_paths([("a", "ab", "*"), ("b", "ab", "*"), ("c", "cd", "*"), ("d", "cd", "*")])
    random = np.random.default_rng(5)
    illness = random.choice(["a", "b"], 200, p=[0.8, 0.2]).tolist()
    people = sample(
        random.integers(0, 4, (200, 2)).tolist(),
        [Categorical(tree).named(name) for name in "xy"],
        illness=illness,
    )
    models = ((ALPHA, 0.9), (ENTROPY_L, 1.2), (RECURSIVE, (6.0, 2.0)), (T, 0.6), (BETA, 4.0))
    for privacy in (Privacy(5, 2), *(Privacy(5, 1, models=models_of((model,))) for model in models)):
        setting = ReplaySetting(algorithm, privacy)
        for found in (
            minimality(people, setting, 0, 4, 2, np.random.default_rng(0)),
            learned_minimality(people, setting, 0, np.random.default_rng(0)),
        ):
            assert found.guessed.count >= 5
            assert found.usual.succeeded > 0


def test_who_is_told_the_window_finds_the_class_that_others_confuse_with_those_of_other_windows() -> None:
    # Two windows with the same two generalizations.
    people = sample([[20], [22], [60], [62], [21], [23], [61], [63]], illness=[*"abbb", *"aabb"])
    ends = {"age_min": [20.0, 20.0, 60.0, 60.0] * 2, "age_max": [23.0, 23.0, 63.0, 63.0] * 2}
    left = np.repeat([3, 7], 4)
    of = scene(people, ends, range(8), left=left.tolist())
    blind, watched = groups(of), groups_at_moment(of, truth(of))
    assert (len(blind.size), len(watched.size)) == (2, 4)
    for seen, size in ((blind, 4), (watched, 2)):
        weight = identity.weights(seen, np.random.default_rng(0))
        found = identity.rank(of, truth(of), seen, weight, np.arange(8), 1)
        assert found.recalled(1) == Tries(8, 8.0)
        assert found.within(1).succeeded == pytest.approx(8 / size)
    # An order of arrival that is wrong by a window would find the other class.
    wrong = replace(watched, points=np.column_stack([left[::-1].astype(float), of.points]))
    weight = identity.weights(wrong, np.random.default_rng(0))
    assert identity.rank(of, truth(of), wrong, weight, np.arange(8), 1).recalled(1) == Tries(8, 0.0)


def test_counts_of_ranges_are_exact_where_nothing_was_generalized() -> None:
    people = sample([[age] for age in range(50)])
    exact = scene(people, {"age_min": [*map(float, range(50))], "age_max": [*map(float, range(50))]}, range(50))
    assert median(errors(exact, groups(exact), np.random.default_rng(0))).error == pytest.approx(0)
    half = scene(people, {"age_min": [0.0] * 25, "age_max": [49.0] * 25}, range(25))
    wrong = median(errors(half, groups(half), np.random.default_rng(0)))
    assert wrong.low <= wrong.error <= wrong.high
    assert wrong.error == pytest.approx(0.5, abs=0.05)


def test_bounds_are_wilsons() -> None:
    assert wilson(Tries(100, 10)) == pytest.approx((0.05523, 0.17437), abs=1e-5)
    assert wilson(Tries(0, 0)) == (0, 1)
    assert wilson(Tries(20, 0))[0] == 0
    for tries in range(1, 300):  # rounding parts no bound from the share it is of
        assert (wilson(Tries(tries, 0))[0], wilson(Tries(tries, tries))[1]) == (0, 1)
    more, low, high = excess(Tries(1000, 900), Tries(1000, 800))
    assert more == pytest.approx(0.5)
    assert 0.3 < low < more < high < 0.7


@FEW
@given(case=cases())
def test_without_the_order_nobody_is_found_more_often_than_one_in_k(case: Case) -> None:
    """Return a stream where each tuple is its own person, and each is published in a release of k."""
    given, setting = sample_of(case.setting, case), setting_of(case)
    generalizes = getattr(setting.algorithm, "suppression", "") == "generalize"
    if given.tuples.subject is not None or generalizes or setting.sampling_and_noise is not None or not len(given):
        return
    of = Scene.of_replay(replay_outputs(given, setting), given)
    if len(of.lower):
        seen, rows = groups(of), np.arange(len(of.lower))
        weight = identity.weights(seen, np.random.default_rng(0))
        found = identity.rank(of, truth(of), seen, weight, truth(of).row, 1)
        assert (found.own[:, 0] * setting.privacy.k <= found.size[:, 0]).all()
        if not given.policy.noised:  # a noised number tells more than the generalization
            assert identity.link(of, truth(of), seen, rows).share * setting.privacy.k <= 1 + 1e-9


def stream(count: int = 3000) -> Sample:
    random = np.random.default_rng(5)
    illness = random.choice(["a", "b", "c"], count, p=[0.6, 0.3, 0.1]).tolist()
    attributes = [Numeric((0, 1)).named(name) for name in "xyz"]
    return sample(random.random((count, 3)).tolist(), attributes, illness=illness)


def test_file_names_tell_writer_and_order() -> None:
    files = [("part-7f-0-0", 2), ("part-7f-0-10", 1), ("part-7f-0-2.csv", 1), ("part-7f-1-0", 2), ("rows", 1)]
    found = Placement.of_files(files, sample([[20]] * 7), Shards())
    assert found.writer.tolist() == [0, 0, 0, 0, 1, 1, 2]
    assert found.order.tolist() == [0, 1, 3, 2, 0, 1, 0]
    assert found.shard is None


def test_rows_that_lie_together_under_one_generalization_are_a_run() -> None:
    ends = {"age_min": [20.0, 20.0, 30.0, 20.0, 20.0], "age_max": [20.0, 20.0, 30.0, 20.0, 20.0]}
    people = sample([[20], [20], [30], [20], [20]], illness=["flu", "hiv", "flu", "hiv", "hiv"])
    of = scene(people, ends, range(5))
    assert runs(of, Placement.of(np.array([0, 0, 0, 0, 1]), people, Shards())).tolist() == [0, 0, 1, 2, 3]
    backwards = Placement.of(np.zeros(5, np.int64), people, Shards(), np.array([2, 3, 1, 0, 0]))
    assert runs(of, backwards).tolist() == [2, 2, 1, 0, 0]


def test_the_order_of_a_file_tells_about_when_its_rows_were_written() -> None:
    """Return two writers, of the even and the odd persons; the second publishes half as many rows per person."""
    people = sample([[age] for age in [10, 90] * 6])
    ends = {"age_min": [*range(5, 11), 88, 89, 90], "age_max": [*[10] * 6, *[90] * 3]}
    of = scene(people, ends, [0, 2, 4, 6, 8, 10, 1, 5, 9])
    found = Placement.of(np.array([0] * 6 + [1] * 3), people, Shards(2, "age"))
    moments = moments_of_order(placed(of, found), found, np.arange(12), np.arange(12))
    assert moments.left.tolist() == [0, 2, 4, 6, 8, 10, 1, 5, 9]


def written_by_four(shards: Shards, person: Sequence[int] | None = None) -> dict[tuple[str, str], Attack]:
    """Four part files, each with a release of twenty neighbors by age and five fully generalized rows."""
    people = sample([[age] for age in range(100)], person=person)
    lower = [end for writer in range(4) for end in [25.0 * writer] * 20 + [0.0] * 5]
    upper = [end for writer in range(4) for end in [25.0 * writer + 19] * 20 + [100.0] * 5]
    by_hand = scene(people, {"age_min": lower, "age_max": upper}, range(100))
    outputs = replace(by_hand.outputs, files=tuple((f"part-7f-{writer}-0", 25) for writer in range(4)))
    found = attack_outputs(outputs, people, 10, Effort(seeds=1, targets=100), shards=shards)
    return {(a.name, a.knows): a for a in found.attacks}


def test_a_part_file_tells_the_values_that_a_full_generalization_hides_where_shards_divide_them() -> None:
    """A configuration of this kind is refused; the outputs are made by hand."""
    found = written_by_four(Shards(4, "age"))
    # One of twenty of a release; of the other rows one of all, and by the part file one of a quarter of all.
    assert found["linking", ALL].success == pytest.approx(0.8 / 20 + 0.2 / 100)
    assert found["linking", PLACED].success == pytest.approx(0.8 / 20 + 0.2 / 25)
    # Those who are in no release fit the twenty rows that tell nothing, and then only five of them.
    assert found["re-identification at 1", ALL].success == pytest.approx(0.8 / 20 + 0.2 / 20)
    assert found["re-identification at 1", PLACED].success == pytest.approx(0.8 / 20 + 0.2 / 5)


def test_a_part_file_tells_nothing_of_persons_where_shards_divide_them_by_subject() -> None:
    found = written_by_four(Shards(4), person=range(100))
    for name in ("linking", "re-identification at 1", "disclosure of illness"):
        assert found[name, PLACED].success == pytest.approx(found[name, ALL].success)


def test_other_rows_of_a_writer_tell_the_range_of_a_fully_generalized_row() -> None:
    people = sample([[10], [12], [80], [82], [11], [81], [83]])
    ends = {"age_min": [10.0, 10.0, 80.0, 80.0] + [0.0] * 3, "age_max": [12.0, 12.0, 82.0, 82.0] + [100.0] * 3}
    of = scene(people, ends, range(7))
    for writer, right in (([0, 0, 1, 1, 0, 1, 1], 2.0), ([0, 0, 1, 1, 1, 0, 0], 0.0)):
        found, chance = downcode_placed(of, truth(of), np.array(writer))
        assert found == Tries(3, right)
        assert chance.succeeded == pytest.approx(3 * 3 / 7)
    assert downcode_placed(of, truth(of), np.array([0, 0, 0, 0, 1, 1, 1]))[0] == Tries(0, 0.0)


FULLY = "downcoding of fully generalized rows", "placement, no values"


def replays_with_four_shards(by: str, suppression: Literal["withhold", "generalize"]) -> dict[tuple[str, str], Attack]:
    """Build a setting without the checks of a configuration."""
    parameters = Castle(Delay(100), suppression=suppression)
    setting = ReplaySetting(parameters, Privacy(8, 2, models={"alpha": 0.62}), Shards(4, by))
    effort = Effort(seeds=2, targets=300, known=(), draws=0, queries=20)
    return {(a.name, a.knows): a for a in attack_replays(stream(), setting, effort).attacks}


@pytest.mark.parametrize("suppression", ["generalize", "withhold"])
@pytest.mark.parametrize("by", ["subject", "x"])
def test_placement_gains_only_where_full_generalization_meets_shards_by_value(
    by: str, suppression: Literal["withhold", "generalize"]
) -> None:
    found = replays_with_four_shards(by, suppression)
    assert (FULLY in found) == (suppression == "generalize")
    if FULLY in found:
        fully = found[FULLY]
        assert fully.baseline is not None
        assert (fully.low > fully.baseline + 0.1) == (by == "x")
    for name in ("re-identification at 1", "re-identification at 5", "linking", "disclosure of illness"):
        assert found[name, PLACED].low <= found[name, ALL].high
        assert not found[name, PLACED].above
        # An attacker who watches the output knows at least as much of its times as the order in files tells.
        assert found[name, f"{PLACED}, exact order"].low <= found[name, f"{ALL}, exact order"].high
    if suppression == "withhold":
        assert found["homogeneity in illness", PLACED].success == 0


EFFORT = Effort(seeds=5, targets=300, known=(1, 2), draws=6, classes=2, tuples=600, queries=20)


@pytest.fixture(scope="module")
def found() -> AttackResults:
    parameters = Castle(Delay(300), reuse_limit=500)
    return attack_replays(stream(), ReplaySetting(parameters, Privacy(8, 2)), EFFORT)


def test_who_knows_less_succeeds_no_more_often_beyond_the_bounds(found: AttackResults) -> None:
    of = {(a.name, a.knows): a for a in found.attacks}
    for name in ("re-identification at 1", "linking"):
        chain = ["1 of 3 of them", "2 of 3 of them"] if name.startswith("re") else []
        chain += [f"quasi-identifiers{more}" for more in ("", ", order to within 50", ", exact order")]
        for less, more in pairwise(chain):
            assert of[name, less].low <= of[name, more].high
        assert of[name, chain[0]].high < of[name, chain[-1]].low
    first = "re-identification at 1"
    assert of[first, chain[-1]].low <= of[first, "quasi-identifiers, and the release"].high
    moment, release = "quasi-identifiers, and the moment", "quasi-identifiers, and the release"
    assert of[first, moment].high >= of[first, "quasi-identifiers"].low
    assert of[first, moment].low <= of[first, release].high
    recall = of["class recall at 1", moment]
    assert of["class recall at 1", "quasi-identifiers"].high < recall.low
    assert recall.success <= of["class recall at 5", moment].success
    own = of["disclosure of illness, class found", moment]
    assert own.success <= min(recall.success, of["disclosure of illness", moment].success) + 0.1
    assert own.success > of["disclosure of illness, class found", "quasi-identifiers"].success
    for name, knows in (("re-identification at 1", "quasi-identifiers"), ("linking", "quasi-identifiers")):
        assert of[name, knows].low <= 1 / 8 == of[name, knows].promised
    # Rows that are reused lie alone in a file: nobody need have watched them leave.
    assert of["homogeneity in illness", ALL].success == 0
    assert of["homogeneity in illness", PLACED].low > 0.01
    alone = of["linking of rows in small releases", "quasi-identifiers, exact order"]
    assert alone.above
    assert alone.success > 0.3


def test_values_that_depend_on_nothing_are_not_disclosed_beyond_the_control_group(found: AttackResults) -> None:
    of = {a.name: a for a in found.attacks if a.knows == "quasi-identifiers"}
    beside = of["disclosure of illness, beside control"]
    assert beside.baseline is not None
    assert beside.low <= beside.baseline + 0.05
    assert of["homogeneity in illness"].success == 0
    assert "excess over the control group" in beside.note


def test_a_seed_repeats_all(found: AttackResults) -> None:
    parameters = Castle(Delay(300), reuse_limit=500)
    again = attack_replays(stream(), ReplaySetting(parameters, Privacy(8, 2)), EFFORT)
    assert again == found


def test_the_outputs_of_a_run_are_judged_without_the_truth() -> None:
    people = stream(1000)
    replayed = replay_outputs(people, ReplaySetting(Castle(Delay(300)), Privacy(8, 2)))
    found = attack_outputs(replayed.outputs, people, 8, EFFORT)
    of = {a.name: a for a in found.attacks}
    assert of.keys() == {
        "re-identification at 1",
        "linking",
        "disclosure of illness",
        "homogeneity in illness",
    }
    assert {a.judged for a in found.attacks} == {"outputs"}
    # An attacker who takes any person that fits is right as often as one who is judged by the truth.
    judged = Scene.of_replay(replayed, people)
    rows = np.arange(len(judged.lower))
    assert of["linking"].success == pytest.approx(identity.link(judged, truth(judged), groups(judged), rows).share)
    assert of["re-identification at 1"].success <= 1 / 8 + 1e-9


def test_what_cannot_be_attacked_is_told_in_a_line() -> None:
    people, setting = stream(20), ReplaySetting(Castle(Delay(30)), Privacy(15))
    with pytest.raises(AttackError, match=r"nothing of the sample was released under it"):
        attack_replays(people, replace(setting, privacy=Privacy(20)), EFFORT)
    with pytest.raises(AttackError, match=r"the sample has 3 persons"):
        attack_replays(people.first(3), setting, EFFORT)
    outputs = replay_outputs(people, setting).outputs
    with pytest.raises(AttackError, match=r"sinks.released: holds no row"):
        attack_outputs(replace(outputs, released=outputs.released.slice(0, 0)), people, 15, EFFORT)
    with pytest.raises(AttackError, match=r"sinks.released: has \d+ rows, and the sample 10;"):
        attack_outputs(outputs, people.first(10), 15, EFFORT)
    moved = replace(people, tuples=replace(people.tuples, numeric=people.tuples.numeric + 9))
    with pytest.raises(AttackError, match=r"no record of the sample lies in 1 of 1 generalizations"):
        attack_outputs(outputs, moved, 15, EFFORT)
