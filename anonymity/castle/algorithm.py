"""CASTLE as others know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anonymity.algorithm import Algorithm, Section, Setting, Shard, Terms, add_algorithm
from anonymity.castle.parameters import NO_DELAY, CastleParameters, problems
from anonymity.castle.shard import Castle
from anonymity.castle.stored import ENTRIES, begun, read
from anonymity.compiled.warm import run_through
from state.castle import CastleState
from state.stored import Stored


def _new(terms: Terms, number: int, key: bytes) -> Shard:
    return Castle(terms, begun(terms, number, key))


def _restored(terms: Terms, stored: Stored, where: str) -> Shard:
    return Castle(terms, read(terms, stored, where))


def _compile() -> None:
    run_through(CASTLE, CastleParameters(delay_tuples=64, delay_event_time=1000))


DELAY = Section("delay", "{tuples: 1000}, {event_time: 10 min}, or both", required=True, empty=NO_DELAY)
DELAY_SETTINGS = (
    Setting("delay.tuples", "delay_tuples", "natural", "how many later tuples one may wait for, 0 or more"),
    Setting(
        "delay.event_time",
        "delay_event_time",
        "duration",
        "a duration such as '10 min', '500 ms', '2 h', '1 day', or whole milliseconds",
    ),
)
SUPPRESSION = Setting(
    "suppression", "suppression", "choice", "'withhold' or 'generalise'", choices=("withhold", "generalise")
)


def tell_delay(parameters: Any) -> Iterator[tuple[str, str]]:
    """A delay as ``crenel check`` shows it."""
    if parameters.delay_tuples is not None:
        yield "delay.tuples", f"{parameters.delay_tuples} later tuples of the shard"
    if parameters.delay_event_time is not None:
        yield "delay.event_time", f"{parameters.delay_event_time} ms"


def _tell(castle: CastleParameters) -> Iterator[tuple[str, str]]:
    yield from tell_delay(castle)
    yield "max_clusters", str(castle.max_clusters)
    yield "loss_window", str(castle.loss_window)
    yield "reuse_limit", str(castle.reuse_limit)
    yield "suppression", castle.suppression


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "merges", f"{counts['merges']:,}", f"splits {counts['splits']:,}"


CASTLE = add_algorithm(
    Algorithm(
        name="castle",
        parameters=CastleParameters,
        sections=(DELAY,),
        settings=(
            *DELAY_SETTINGS,
            Setting("max_clusters", "max_clusters", "positive", "a whole number, 1 or more"),
            Setting("loss_window", "loss_window", "positive", "a whole number, 1 or more"),
            Setting("reuse_limit", "reuse_limit", "natural", "a whole number, 0 or more"),
            SUPPRESSION,
        ),
        example="{delay: {tuples: 1000}}",
        new=_new,
        restored=_restored,
        state=("shard", CastleState),
        entries=ENTRIES,
        problems=problems,
        counted={
            "tuples_in": "tuples let in",
            "sampled_out": "tuples that sampling did not let in",
            "released": "tuples released",
            "merges": "clusters merged",
            "splits": "clusters split",
        },
        gauges={
            "open_clusters": lambda shards: sum(shard.open_clusters for shard in shards),
            "tau_x1000": lambda shards: round(1000 * max((shard.tau for shard in shards), default=0.0)),
        },
        tell=_tell,
        summary=_summary,
        compile=_compile,
        noise=True,
    )
)
