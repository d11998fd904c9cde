"""Registration of algorithms that buffer tuples up to a delay bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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
from crenel.anonymity.buffer.delay import NO_DELAY, delay_warnings
from crenel.anonymity.buffer.repair_rows import OUTPUT
from crenel.anonymity.buffer.stored_clusters import ENTRIES
from crenel.anonymity.buffer.stored_frequencies import SEEN
from crenel.anonymity.model.privacy import Privacy
from crenel.state.castle import CastleState
from crenel.state.shard import StoredShard


def delayed_algorithm(
    *,
    name: str,
    parameters: type,
    settings: tuple[Setting, ...],
    new: Callable[[ShardContext, int, bytes], Shard],
    restored: Callable[[ShardContext, StoredShard, str], Shard],
    counted: Mapping[str, str],
    gauges: Mapping[str, Callable[[Sequence[Any]], int]],
    tell: Callable[[Any], Iterator[tuple[str, str]]],
    summary: Callable[[Mapping[str, int]], tuple[str, str, str]],
    compile: Callable[[Privacy], None],
    entries: tuple[str, ...] = (),
    lasting: bool = False,
) -> Algorithm:
    """Register an algorithm whose shards are ``DelayedShard``, with the settings that all of these share.

    ``settings``, ``counted``, ``gauges`` and ``tell`` add to those of delay, reuse and suppression. ``entries`` adds
    kinds of stored entries to those of ``crenel.anonymity.buffer.stored_clusters``.
    """

    def tell_all(given: Any) -> Iterator[tuple[str, str]]:
        yield from tell_delay(given)
        yield "delay.jitter", f"{given.delay_jitter:g}: a deadline of its own for each tuple, within the delay's end"
        yield from tell(given)
        yield "loss_window", str(given.loss_window)
        yield "reuse_limit", str(given.reuse_limit)
        yield "suppression", given.suppression
        yield from tell_weights(given)

    return add_algorithm(
        Algorithm(
            name=name,
            parameters=parameters,
            sections=(
                Section("delay", "{tuples: 1000}, {event_time: 10 min}, or both", required=True, empty=NO_DELAY),
            ),
            settings=(
                Setting("delay.tuples", "delay_tuples", "natural", "how many later tuples one may wait for, 0 or more"),
                Setting(
                    "delay.event_time",
                    "delay_event_time",
                    "duration",
                    "a duration such as '10 min', '500 ms', '2 h', '1 day', or whole milliseconds",
                ),
                Setting(
                    "delay.jitter",
                    "delay_jitter",
                    "share",
                    "a number from 0 to 1: the share of the delay that a tuple's own deadline may come before its end",
                ),
                *settings,
                Setting("loss_window", "loss_window", "positive", "a whole number, 1 or more"),
                Setting("reuse_limit", "reuse_limit", "natural", "a whole number, 0 or more"),
                Setting(
                    "suppression",
                    "suppression",
                    "choice",
                    "'withhold' or 'generalize'",
                    choices=("withhold", "generalize"),
                ),
                weights_setting("above 0"),
            ),
            example="{delay: {tuples: 1000}}",
            new=new,
            restored=restored,
            state=("shard", CastleState),
            entries=(*ENTRIES, SEEN, *entries),
            lasting=lasting,
            problems=lambda policy, privacy, given: given.problems(policy, privacy),
            counted={
                "tuples_in": "tuples admitted",
                "sampled_out": "tuples that sampling left out",
                "released": "tuples released",
                **counted,
            },
            gauges={
                **gauges,
                "tau_x1000": lambda shards: round(1000 * max((shard.tau for shard in shards), default=0.0)),
            },
            tell=tell_all,
            summary=summary,
            compile=compile,
            warnings=lambda given: delay_warnings(given, name),
            noise=True,
            arrays=True,
            delay_tuples=lambda given: given.delay_tuples,
            outputs=(OUTPUT,),
        )
    )
