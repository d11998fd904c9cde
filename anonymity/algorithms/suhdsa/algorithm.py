"""Registration of SUHDSA as an anonymization algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crenel.anonymity.algorithm import (
    Algorithm,
    Section,
    Setting,
    Shard,
    ShardContext,
    add_algorithm,
    tell_delay,
    tell_weights,
    weights_setting,
)
from crenel.anonymity.algorithms.batch.stored import ENTRIES
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.algorithms.suhdsa.outputs import REPAIRS, WINDOWS
from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaParameters
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard
from crenel.anonymity.algorithms.suhdsa.stored import initial_snapshot, read
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.shard import StoredShard
from crenel.state.suhdsa import SuhdsaState


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return SuhdsaShard(context, initial_snapshot(context, number, key))


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return SuhdsaShard(context, read(context, stored, where))


def _compile(_privacy: Privacy) -> None:
    warm_up(SUHDSA, SuhdsaParameters(tuples=64, event_time=1000))


def _problems(policy: Policy, privacy: Privacy, parameters: SuhdsaParameters) -> Iterator[str]:
    yield from parameters.problems(policy, privacy)


def _tell(window: SuhdsaParameters) -> Iterator[tuple[str, str]]:
    yield from tell_delay(window)
    if window.tuples is not None:
        yield "tuples", f"{window.tuples} close a window"
    if window.event_time is not None:
        yield "event_time", f"{window.event_time} ms close a window"
    yield "distortion_weight", f"{window.distortion_weight:.6g}"
    yield "neighbors", str(window.neighbors)
    yield "growth_cap", f"{window.growth_cap:.6g}"
    yield "output", window.output
    yield "numeric", window.numeric
    yield "categorical", window.categorical
    yield from tell_weights(window)
    if (target := window.target) is not None:
        settings = f"smoothing {target.smoothing:.6g}, band {target.band:.6g}, dwell {target.dwell}"
        yield "target", f"from l to {target.most}; {settings}"
    if (adaptive := window.adaptive) is not None:
        settings = f"delay_weight {adaptive.delay_weight:.6g}, windows {adaptive.windows}"
        yield "adaptive", f"windows of {adaptive.least} to {window.tuples} tuples; {settings}"


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "windows", f"{counts['windows']:,}", f"repaired by swaps {counts['swaps']:,}, merges {counts['merges']:,}"


SUHDSA = add_algorithm(
    Algorithm(
        name="suhdsa",
        stored_name="window",
        parameters=SuhdsaParameters,
        sections=(
            Section("delay", "{tuples: 100}, {event_time: 20 s}, or both, or null for two windows"),
            Section("target", "a mapping such as {most: 5}, or null to keep it at l"),
            Section("adaptive", "a mapping such as {least: 20}, or null to keep the window's size"),
        ),
        settings=(
            Setting("tuples", "tuples", "positive", "a whole number, 1 or more, or null where event time closes it"),
            Setting(
                "event_time",
                "event_time",
                "duration",
                "a duration such as '10 s', or null where a number of tuples closes it",
            ),
            Setting(
                "delay.tuples",
                "delay_tuples",
                "natural",
                "how many later tuples one may wait for, suhdsa.tuples or more",
            ),
            Setting(
                "delay.event_time",
                "delay_event_time",
                "duration",
                "a duration such as '20 s', suhdsa.event_time or more, or whole milliseconds",
            ),
            Setting("distortion_weight", "distortion_weight", "share", "a number from 0 to 1"),
            Setting("neighbors", "neighbors", "positive", "a whole number, 1 or more"),
            Setting("growth_cap", "growth_cap", "at least 2", "a number, 2 or more"),
            Setting(
                "output",
                "output",
                "choice",
                "'generalization' or 'representative'",
                choices=("generalization", "representative"),
            ),
            Setting("numeric", "numeric", "choice", "'mean' or 'median'", choices=("mean", "median")),
            Setting("categorical", "categorical", "choice", "'mode' or 'ancestor'", choices=("mode", "ancestor")),
            weights_setting("from 0"),
            Setting(
                "target.most",
                "target.most",
                "positive",
                "a whole number from privacy.l to privacy.k",
                required=True,
            ),
            Setting("target.smoothing", "target.smoothing", "above 0 to 1", "a number above 0 and at most 1"),
            Setting("target.band", "target.band", "share", "a number from 0 to 1"),
            Setting("target.dwell", "target.dwell", "natural", "a whole number, 0 or more"),
            Setting(
                "adaptive.least",
                "adaptive.least",
                "positive",
                "a whole number from privacy.k to suhdsa.tuples",
                required=True,
            ),
            Setting("adaptive.delay_weight", "adaptive.delay_weight", "share", "a number from 0 to 1"),
            Setting("adaptive.windows", "adaptive.windows", "positive", "a whole number, 1 or more"),
        ),
        example="{tuples: 50}",
        new=_new,
        restored=_restored,
        state=("window", SuhdsaState),
        entries=(*ENTRIES, SEEN),
        problems=_problems,
        counted={
            "tuples_in": "tuples admitted",
            "released": "tuples released",
            "windows": "windows closed",
            "swaps": "groups repaired by a swap",
            "merges": "groups merged to repair them",
        },
        gauges={
            "carried": lambda shards: sum(shard.carried for shard in shards),
            "target": lambda shards: max((shard.target for shard in shards), default=0),
        },
        tell=_tell,
        summary=_summary,
        compile=_compile,
        delay_tuples=lambda window: window.delay_tuples,
        representative=lambda window: window.output == "representative",
        outputs=(REPAIRS, WINDOWS),
    )
)
