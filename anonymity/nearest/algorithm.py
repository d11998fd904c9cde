"""Nearest release as others know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anonymity.algorithm import Algorithm, Setting, Shard, Terms, add_algorithm
from anonymity.castle.algorithm import DELAY, DELAY_SETTINGS, SUPPRESSION, tell_delay
from anonymity.castle.stored import ENTRIES, begun, read
from anonymity.compiled.warm import run_through
from anonymity.nearest.parameters import NearestParameters, problems
from anonymity.nearest.shard import Nearest
from state.castle import CastleState
from state.stored import Stored


def _new(terms: Terms, number: int, key: bytes) -> Shard:
    return Nearest(terms, begun(terms, number, key))


def _restored(terms: Terms, stored: Stored, where: str) -> Shard:
    return Nearest(terms, read(terms, stored, where))


def _compile() -> None:
    run_through(NEAREST, NearestParameters(delay_tuples=64, delay_event_time=1000))


def _tell(nearest: NearestParameters) -> Iterator[tuple[str, str]]:
    yield from tell_delay(nearest)
    yield "loss_window", str(nearest.loss_window)
    yield "reuse_limit", str(nearest.reuse_limit)
    yield "suppression", nearest.suppression


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "nearest", "", "each left with those that lie nearest"


NEAREST = add_algorithm(
    Algorithm(
        name="nearest",
        parameters=NearestParameters,
        sections=(DELAY,),
        settings=(
            *DELAY_SETTINGS,
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
        },
        gauges={"tau_x1000": lambda shards: round(1000 * max((shard.tau for shard in shards), default=0.0))},
        tell=_tell,
        summary=_summary,
        compile=_compile,
        noise=True,
    )
)
