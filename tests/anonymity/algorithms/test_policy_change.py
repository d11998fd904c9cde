"""A restore of CASTLE and nearest under another policy: a changed k, l or delay holds at once, or is refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.castle.shard import CastleShard
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.nearest.shard import NearestShard
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.attributes import Categorical, Numeric, by_name
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.fingerprint import fingerprint
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.model.secret import SubjectKey
from crenel.state.block import NO_TIME
from tests.support.checker import Checker
from tests.support.drive import KEY, Kept, Setting, columns_of
from tests.support.example_counts import FEW, LAWS
from tests.support.nearest_drive import NearestChecker, NearestSetting, nearest_cases, nearest_parameters
from tests.support.source import IDENTITY, Advance, Finish, Push, Row, Step
from tests.support.strategies import ONE_BY_ONE, Case, cases, castle_parameters, cuts, weights_of

Parameters: TypeAlias = Castle | Nearest
Made: TypeAlias = Callable[..., Parameters]
Cases: TypeAlias = Callable[..., st.SearchStrategy[Case]]
BOTH = pytest.mark.parametrize("of", [Castle, Nearest])
BOTH_CASES = pytest.mark.parametrize("of", [cases, nearest_cases])


class ChangedChecker(Checker):
    """A checker that is told of restores under another policy."""

    _restored = 0
    _new: Parameters = Castle(Delay(0))

    def change(self, setting: Setting, counters: Any) -> None:
        """From here on the shard, which stands as ``counters`` tell, is to keep another policy."""
        privacy, parameters = self.privacy, self._new = setting.privacy, setting.algorithm
        self.privacy, self._restored = privacy, len(self.rows)
        promising = [
            s for s in self.omega if s.subjects >= privacy.k and min(s.diversity, default=privacy.l) >= privacy.l
        ]
        self.omega = deque(promising, maxlen=parameters.reuse_limit)
        used = min(self._clusters, len(self._ring))
        if parameters.loss_window != len(self._ring):
            start = self._clusters if used == len(self._ring) else 0
            losses = [self._ring[(start + i) % len(self._ring)] for i in range(used)][-parameters.loss_window :]
            self._ring = losses + [0.0] * (parameters.loss_window - len(losses))
            self._clusters = len(losses)
        self._allow(counters)

    def agree(self, counters: Any) -> None:
        super().agree(counters)
        if self._restored:
            self._allow(counters)

    def _allow(self, counters: Any) -> None:
        # Clusters above a new bound stay open, and no more than there are.
        self.algorithm = replace(self._new, max_clusters=max(counters.open_clusters, self._new.max_clusters))

    def _stays_until(self, position: int) -> int:
        # The next tuple, if any, releases all tuples that a shorter delay has made overdue.
        return max(super()._stays_until(position), self._restored)


class ChangedNearestChecker(ChangedChecker, NearestChecker):
    """Checker of nearest that learns of restores under another policy. Nearest has one cluster."""

    def _allow(self, counters: Any) -> None:
        self.algorithm = self._new


@st.composite
def others(draw: st.DrawFn, setting: Setting) -> Setting:
    """Return the same columns under another k, l, delay and bounds."""
    noise = setting.privacy.noise_within_release
    near = 1 if noise is None or noise.confidence is None else noise.confidence.k
    k = draw(st.sampled_from((1, 2, 3, 4, 6)).filter(lambda k: k >= near))
    values = draw(st.sampled_from(sorted({1, min(2, k), k})))
    privacy = Privacy(k, values, models={}, noise_within_release=noise)
    parameters: Any = draw(castle_parameters(timed=setting.policy.event_time is not None))
    parameters = replace(
        parameters, suppression=setting.algorithm.suppression, weights=draw(weights_of(setting.policy))
    )
    if isinstance(setting, NearestSetting):
        parameters = draw(nearest_parameters(parameters))
    return replace(setting, privacy=privacy, algorithm=parameters)


@st.composite
def changed_cases(draw: st.DrawFn, of: Cases, /, **fixed: Any) -> tuple[Case, dict[int, Setting]]:
    """Return a stream of ``cases`` or ``nearest_cases``, and the settings that hold from some of its tuples on."""
    case = draw(of(**fixed))
    at_tuples = draw(st.lists(st.integers(0, max(len(case.rows) - 1, 0)), min_size=1, max_size=3))
    return case, {at_tuple: draw(others(case.setting)) for at_tuple in sorted(at_tuples)}


def parts(case: Case, changes: dict[int, Setting], cut: tuple[int, ...]) -> list[tuple[Setting, list[Step]]]:
    """Return the steps under each setting; only the last part has an end."""
    starts = [0, *changes, len(case.rows)]
    made = [
        (setting, replace(case, rows=case.rows[start:stop], passed=case.passed[start:stop]).steps(cut))
        for setting, start, stop in zip([case.setting, *changes.values()], starts, starts[1:], strict=False)
    ]
    return [*((setting, steps[:-1]) for setting, steps in made[:-1]), made[-1]]


def run(case: Case, changes: dict[int, Setting], cut: tuple[int, ...]) -> list[Releases]:
    """Restore a shard under each of the changed settings, and have the checker judge each step."""
    is_nearest = isinstance(case.setting, NearestSetting)
    shard, checker = (
        Kept(case.setting),
        (ChangedNearestChecker if is_nearest else ChangedChecker)(*vars_of(case.setting)),
    )
    outputs = []
    for number, (setting, steps) in enumerate(parts(case, changes, cut)):
        if number > 0:
            shard.restore(setting)
            checker.change(setting, shard.live.counters)
        for step in steps:
            outputs.append(shard.take(step))
            checker.observe(step, outputs[-1])
            checker.agree(shard.live.counters)
    return outputs


def vars_of(setting: Setting) -> tuple[Policy, Privacy, Parameters, bytes]:
    return setting.policy, setting.privacy, setting.algorithm, KEY


@BOTH_CASES
@given(data=st.data(), cut=cuts)
@LAWS
def test_what_is_promised_anew_holds_from_the_first_release_on(
    of: Cases, data: st.DataObject, cut: tuple[int, ...]
) -> None:
    changed = data.draw(changed_cases(of))
    run(*changed, cut)


@BOTH_CASES
@given(data=st.data(), cut=cuts)
@FEW
def test_nothing_is_reused_that_promises_less_than_the_new_policy(
    of: Cases, data: st.DataObject, cut: tuple[int, ...]
) -> None:
    changed = data.draw(changed_cases(of, loss_window=100, delay=Delay(4)))
    run(*changed, cut)


@BOTH_CASES
@given(data=st.data(), cut=cuts)
@FEW
def test_how_a_stream_was_cut_before_a_change_does_not_show_after_it(
    of: Cases, data: st.DataObject, cut: tuple[int, ...]
) -> None:
    changed = data.draw(changed_cases(of, loss_window=100))
    # Some block ends where a change comes, in both: it is then that what is overdue leaves.
    assert columns_of(run(*changed, (1, *cut[1:]))) == columns_of(run(*changed, ONE_BY_ONE))


POLICY = Policy({"x": Numeric((0, 100))}, sensitive=("s",), passthrough=(IDENTITY,), subject="who")
TIMED = replace(POLICY, event_time="at")
FAR = Castle(Delay(10_000), max_clusters=50)


def setting(privacy: Privacy, parameters: Parameters = FAR, *, policy: Policy = POLICY, sensitive: int = 1) -> Setting:
    made: Any = NearestSetting if isinstance(parameters, Nearest) else Setting
    return made(policy, privacy, parameters, (*[pa.string()] * sensitive, pa.int64()))


def rows(*values: tuple[float, str], first: int = 0) -> Push:
    """Tuples of a person each: x and sensitive value."""
    return Push(tuple(Row((x,), (s, i), subject=i, event_time=i) for i, (x, s) in enumerate(values, first)))


@pytest.mark.parametrize(
    ("privacy", "sensitive", "kind"),
    [
        (Privacy(2), "aa", "reused"),
        (Privacy(3), "ab", None),
        (Privacy(2, 2), "aa", None),
        (Privacy(2, 2), "ab", "reused"),
        (Privacy(3, 2), "ab", None),
    ],
)
@BOTH
def test_a_generalization_is_handed_out_only_where_it_keeps_the_new_promise(
    of: Made, privacy: Privacy, sensitive: str, kind: str | None
) -> None:
    shard = Kept(setting(Privacy(2), of(Delay(1), reuse_limit=1000)))
    one, other = sensitive
    # A wide release, and one of less loss than tau, which Omega of CASTLE keeps too: 10 to 12.
    out = [shard.take(rows((0, "a"), (9, "b"))), shard.take(rows((10, one), (12, other), first=2))]
    assert [release.upper.tolist() for release in out] == [[[9]], [[12]]]
    shard.restore(setting(privacy, of(Delay(1), reuse_limit=1000)))
    shard.take(rows((11, "c"), first=4))
    last = shard.take(Finish())
    assert [KINDS[k] for k in last.kind] == ([] if kind is None else [kind])
    assert len(last.suppressed_reason) == (kind is None)


def reusable(castle: CastleShard | NearestShard) -> list[int]:
    """Return the releases whose generalizations Omega keeps."""
    return sorted(castle.arrays.omega.release[-castle.arrays.now.omega_used :].tolist())


@BOTH
def test_what_was_forgotten_or_evicted_stays_so_under_the_policies_that_follow(of: Made) -> None:
    two, three = Privacy(2), Privacy(3)
    shard = Kept(setting(two, of(Delay(1), reuse_limit=3)))
    shard.take(rows((0, "a"), (100, "b")))
    pairs = [(10, "a"), (30, "b"), (40, "a"), (55, "b"), (60, "a"), (70, "b"), (80, "c"), (85, "a")]
    shard.take(rows(*pairs, first=2))  # one step, so that they are stored as one
    assert sum(shard.live.counters.releases.values()) == 5
    assert len(shard.stored.entries["omega"]) == 1
    for privacy, limit, kept in [
        (two, 3, [2, 3, 4]),
        (two, 1000, [2, 3, 4]),
        (two, 2, [3, 4]),
        (two, 1000, [3, 4]),
        (three, 1000, []),
        (two, 1000, []),
    ]:
        shard.restore(setting(privacy, of(Delay(1), reuse_limit=limit)))
        assert reusable(shard.live) == kept if kept else shard.live.arrays.now.omega_used == 0
        shard.take(Push(()))


DELAYS = pytest.mark.parametrize("delay", [(50,), (None, 1000), (50, 1000)])


@BOTH
@DELAYS
@pytest.mark.parametrize("step", [Push(()), Advance(NO_TIME), rows((50, "a"), first=10), Finish()])
def test_what_a_shorter_delay_has_made_overdue_leaves_in_the_first_step(
    of: Made, delay: tuple[int | None, ...], step: Step
) -> None:
    before = of(Delay(*delay))
    shard = Kept(setting(Privacy(2), before, policy=TIMED))
    assert len(shard.take(rows(*((10.0 * i, "a") for i in range(10))))) == 0
    shard.restore(setting(Privacy(2), replace(before, delay=replace(before.delay, tuples=3)), policy=TIMED))
    out = shard.take(step)
    assert set(range(7)) <= set(out.members[1])
    assert shard.live.counters.oldest_waiting <= 3


@BOTH
@DELAYS
def test_what_a_shorter_event_time_delay_has_made_overdue_leaves_in_the_first_step(
    of: Made, delay: tuple[int | None, ...]
) -> None:
    before = of(Delay(*delay))
    shard = Kept(setting(Privacy(2), before, policy=TIMED))
    shard.take(rows(*((10.0 * i, "a") for i in range(10))))
    assert len(shard.take(Advance(9))) == 0
    shard.restore(setting(Privacy(2), replace(before, delay=replace(before.delay, event_time=4)), policy=TIMED))
    assert shard.live.next_deadline == 4
    assert set(range(6)) <= set(shard.take(Advance(9)).members[1])


@BOTH
@DELAYS
def test_a_longer_delay_holds_for_what_waits_already(of: Made, delay: tuple[int | None, ...]) -> None:
    shard = Kept(setting(Privacy(2), of(Delay(5, 5)), policy=TIMED))
    shard.take(rows(*((20.0 * i, "a") for i in range(5))))
    shard.restore(setting(Privacy(2), of(Delay(*delay)), policy=TIMED))
    more = rows(*((2.0 * i, "a") for i in range(40)), first=5)
    assert len(shard.take(replace(more, watermark=45))) == 0
    assert len(shard.take(Advance(900))) == 0
    assert shard.live.counters.buffered == 45


def test_more_clusters_than_the_new_bound_stay_open_and_none_opens_until_there_is_room() -> None:
    shard = Kept(setting(Privacy(2), Castle(Delay(9), max_clusters=8)))
    shard.take(rows(*((12.0 * i, "a") for i in range(8))))
    assert shard.live.counters.open_clusters == 8
    shard.restore(setting(Privacy(2), Castle(Delay(9), max_clusters=3)))
    counters = shard.live.counters
    assert (counters.open_clusters, counters.buffered) == (8, 8)
    opened = []
    for i in range(8, 80):
        before, clusters = shard.live.counters.open_clusters, next_cluster(shard)
        shard.take(rows((i * 37 % 101, "a"), first=i))
        opened.append(next_cluster(shard) - clusters)
        assert shard.live.counters.open_clusters <= max(before, 3)
        assert opened[-1] == 0 or before < 3
    assert any(opened)


def next_cluster(shard: Kept) -> int:
    return int(shard.live.arrays.now.next_cluster)


@BOTH
@pytest.mark.parametrize("window", [1, 2, 3, 4, 100])
def test_tau_averages_the_most_recent_losses_that_the_new_window_holds(of: Made, window: int) -> None:
    shard = Kept(setting(Privacy(2), of(Delay(1), loss_window=3, reuse_limit=0)))
    losses: list[float] = []

    def release(first: int, width: float) -> None:
        out = shard.take(rows((0, "a"), (width, "a"), first=first))
        losses.extend(out.loss.tolist())

    for i, width in enumerate((90, 50, 30, 20)):  # the ring of three is full, and its oldest is not its first
        release(2 * i, width)
    assert losses == pytest.approx([0.9, 0.5, 0.3, 0.2])
    shard.restore(setting(Privacy(2), of(Delay(1), loss_window=window, reuse_limit=0)))
    kept = losses[-min(window, 3) :]
    assert shard.live.counters.tau == pytest.approx(sum(kept) / len(kept))
    release(8, 10)
    kept = (kept + losses[-1:])[-window:]
    assert shard.live.counters.tau == pytest.approx(sum(kept) / len(kept))


@BOTH
@pytest.mark.parametrize("attributes", [1, 2])
@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(("waiting", "reason"), [("aaa", "too_little_diversity"), ("aba", None), ("abb", None)])
def test_a_new_l_counts_the_values_of_those_that_wait_already(
    of: Made, waiting: str, reason: str | None, restored: bool, attributes: int
) -> None:
    # Of two sensitive attributes the other one has three values, which do not help.
    policy = replace(POLICY, sensitive=("s", "t")[:attributes])

    def under(l: int) -> Setting:  # noqa: E741
        return setting(Privacy(2, l), of(Delay(10_000)), policy=policy, sensitive=attributes)

    shard = Kept(under(1))
    values = [(value, str(i))[:attributes] for i, value in enumerate(waiting)]
    shard.take(Push(tuple(Row((50.0,), (*value, i), subject=i) for i, value in enumerate(values))))
    for l in (2, 1, 2) if restored else (2,):  # noqa: E741
        shard.restore(under(l))
    assert shard.live.counters.buffered == 3
    out = shard.take(Finish())
    found = shard.live.counters
    if reason is None:
        assert out.diversity.tolist() == [[2, 3][:attributes]]
        assert sorted(out.members[-1]) == [0, 1, 2]
    else:
        # The first goes for want of values, and those that are left are too few or alike as well.
        assert len(out) == 0
        assert found.suppressed[reason] == 2
        assert found.suppressed["too_few_subjects"] == 1


@BOTH
def test_a_smaller_l_and_a_smaller_k_release_what_could_not_be_released(of: Made) -> None:
    for privacy in (Privacy(3), Privacy(2), Privacy(1)):
        shard = Kept(setting(Privacy(4, 2), of(Delay(10_000))))
        assert len(shard.take(rows(*[(50.0, "a")] * 12))) == 0
        shard.restore(setting(privacy, of(Delay(10_000))))
        assert shard.take(Finish()).tuples.sum() == 12


def test_slots_of_nearest_follow_a_longer_and_a_shorter_delay() -> None:
    chance = Random(7)
    stream = [(float(chance.randrange(101)), chance.choice("abc")) for _ in range(9000)]
    changed = {
        0: setting(Privacy(3), Nearest(Delay(300))),
        2000: setting(Privacy(4, 2), Nearest(Delay(5000))),
        7000: setting(Privacy(2), Nearest(Delay(40))),
    }
    outputs: list[list[Releases]] = [[], []]
    for every_step, out in enumerate(outputs):  # also with a restore after each step
        shard, checker, slots = Kept(changed[0]), ChangedNearestChecker(*vars_of(changed[0])), []
        for first in range(0, len(stream), 200):
            if first in changed and first > 0:
                shard.restore(changed[first])
                checker.change(changed[first], shard.live.counters)
            elif every_step and first > 0:
                shard.restore()
            step = rows(*stream[first : first + 200], first=first)
            out.append(shard.take(step))
            if not every_step:  # which publishes the same
                checker.observe(step, out[-1])
                checker.agree(shard.live.counters)
            slots.append(len(shard.live.arrays.tuples.position))
        assert slots[2000 // 200 - 1] < slots[7000 // 200 - 1] > slots[-1]
    assert columns_of(outputs[0]) == columns_of(outputs[1])


TOWNS = from_paths([("Rome", "Europe", "*"), ("Lima", "*")])
STORED = Policy(
    {"age": Numeric((17, 90)), "town": Categorical(TOWNS), "pay": Numeric()},
    sensitive=("illness",),
    passthrough=(IDENTITY,),
    subject="person",
    event_time="at",
)
AGE, TOWN, PAY = STORED.attributes
TYPES = {"illness": "STRING", IDENTITY: "BIGINT"}
QI = "policy.quasi_identifiers"


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"policy": replace(STORED, quasi_identifiers=by_name((AGE, TOWN)))}, [QI, f"{QI}.pay.domain"]),
        ({"policy": replace(STORED, quasi_identifiers=by_name((PAY, TOWN, AGE)))}, [QI]),
        (
            {"policy": replace(STORED, quasi_identifiers=by_name((Numeric((0, 90)).named("age"), TOWN, PAY)))},
            [f"{QI}.age.domain"],
        ),
        (
            {"policy": replace(STORED, quasi_identifiers=by_name((AGE, TOWN, Numeric((0, 1)).named("pay"))))},
            [f"{QI}.pay.domain"],
        ),
        (
            {
                "policy": replace(
                    STORED,
                    quasi_identifiers=by_name((AGE, Categorical(TOWNS.with_missing()).named("town"), PAY)),
                )
            },
            [f"{QI}.town.hierarchy"],
        ),
        (
            {"policy": replace(STORED, sensitive=(), passthrough=("illness", IDENTITY))},
            ["policy.passthrough", "policy.sensitive"],
        ),
        ({"policy": replace(STORED, subject=None)}, ["policy.subject"]),
        ({"policy": replace(STORED, subject="household")}, ["policy.subject"]),
        ({"policy": replace(STORED, event_time=None)}, ["policy.event_time"]),
        ({"policy": replace(STORED, missing="value")}, ["policy.missing", f"{QI}.town.hierarchy"]),
        ({"shards": Shards(5)}, ["shards.count"]),
        ({"shards": Shards(4, "town")}, ["shards.by"]),
        ({"subject_key": SubjectKey.of(b"another")}, ["subject_key"]),
        ({"members": TYPES | {IDENTITY: "STRING"}}, [f"type of the column {IDENTITY}"]),
    ],
)
def test_what_the_state_cannot_outlive_is_refused_by_name(change: dict[str, Any], fields: list[str]) -> None:
    assert refused(change) == fields


STEPPED = [f"policy.quasi_identifiers.{attribute.name}.step" for attribute in STORED.numeric]
SAMPLED = SamplingAndNoise(0.9, 100.0)


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        (None, SAMPLED, ["sampling_and_noise", *STEPPED]),
        (SAMPLED, None, ["sampling_and_noise", *STEPPED]),
        (SAMPLED, SamplingAndNoise(0.9, 90.0), ["sampling_and_noise"]),
        (SAMPLED, SamplingAndNoise(0.8, 100.0), ["sampling_and_noise"]),
    ],
)
def test_sampling_and_noise_can_neither_be_changed_nor_switched_on_or_off(
    before: SamplingAndNoise | None, after: SamplingAndNoise | None, fields: list[str]
) -> None:
    assert refused({"sampling_and_noise": after}, sampling_and_noise=before) == sorted(fields)


def refused(change: dict[str, Any], **made: Any) -> list[str]:
    """Return the fields that a restore names when the policy of what it is made from has changed."""
    made = {
        "policy": STORED,
        "shards": Shards(4),
        "subject_key": SubjectKey.of(b"key"),
        "members": TYPES,
    } | made
    shown = Setting(STORED, Privacy(2), FAR, (pa.string(), pa.int64()))
    shard = Kept(shown, fingerprint(**made))
    shard.take(Push((Row((20.0, "Rome", 7.0), ("flu", 0), subject=1, event_time=5),)))
    kinds = {"illness": pa.string(), IDENTITY: pa.int64()}
    policy = change.get("policy", STORED)
    changed = replace(shown, policy=policy, types=tuple(kinds[name] for name in policy.members))
    with pytest.raises(PolicyError) as error:
        changed.again(shard.stored, fingerprint(**made | change), "key 17")
    message = str(error.value)
    assert message.endswith("The stored state of shard 0 (key 17) was made under another policy")
    return message.partition("on a restore: ")[2].partition(". The stored")[0].split(", ")
