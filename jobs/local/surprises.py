"""What of a run surprises who did not expect it, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from crenel.anonymity.outcomes import LINKABLE, REUSE_RISK

if TYPE_CHECKING:
    from crenel.jobs.local.summary import Summary

_ENOUGH = 100
"""Tuples from which shares of them say something."""

_MANY_SUPPRESSED = 0.1
_WIDE = 2.0
_MOSTLY = 0.5
_FULL = 2.0

_LONGER = "let tuples wait longer"

_REMEDIES = {
    "outlier": f"more than half of the clusters were larger than theirs; {_LONGER}, or keep fewer clusters open",
    "too_few_subjects": f"fewer than k people waited together; {_LONGER}, or divide the stream into fewer shards",
    LINKABLE: "too few people were near what would have been published; lower noise_within_release.confidence.k or "
    "noise_within_release.epsilon. Larger windows help too, a longer delay of CASTLE does not",
}
_OF_VALUES = (
    "those that waited together had too few sensitive values. A stream that comes ordered by a sensitive value does "
    f"that: read it in the order of its events, or {_LONGER}"
)


def surprises(summary: Summary) -> Iterator[str]:
    """What a summary should be read with, each with its field."""
    if summary.reused:
        yield (
            f"{summary.algorithm.name}.reuse_limit: {summary.reused:,} of {summary.released:,} released tuples were "
            f"published alone under an earlier generalization. {REUSE_RISK}. Set it to 0, unless no recipient can know "
            "when records arrive"
        )
    tuples, suppressed = summary.rows_in - summary.sampled_out - sum(summary.rejected.values()), summary.suppressed
    if summary.rows_in == 0:
        yield (
            "source.ddl: no row was read, so nothing was published; check the path, or the topic and its offsets, and "
            "the WHERE of source.query"
        )
    if tuples < _ENOUGH:
        return
    if (amount := sum(suppressed.values())) >= _MANY_SUPPRESSED * tuples:
        reason = max(suppressed, key=lambda name: suppressed[name])
        why = _REMEDIES.get(reason, _OF_VALUES)
        yield f"suppressed: {amount / tuples:.0%} of the tuples, most of them as {reason.replace('_', ' ')}: {why}"
    for name, times in sorted(summary.stretch.items()):
        if times >= _WIDE:
            yield (
                f"policy.quasi_identifiers.{name}.domain: is not given, and a few far values make the observed range "
                f"{times:.3g} times as wide as all others. Intervals grow, and the stated loss, a share of that range, "
                "is the smaller for it; give the domain, so that rows outside of it are rejected"
            )
    if summary.fullest is not None and summary.fullest[1] > _FULL:
        shard, times = summary.fullest
        yield (
            f"shards.regions: shard {shard} got {times:.3g} times its expected share of the tuples, so the stream is "
            "not like what its regions were learned from; learn them anew with 'crenel regions'"
        )
    if summary.overdue >= _MOSTLY * tuples and summary.event_time_field is not None:
        yield (
            f"{summary.event_time_field}: {summary.overdue / tuples:.0%} of the tuples left after more than twice "
            "that time, as rows were read faster than watermarks came. Let the source's table have "
            "'scan.watermark.emit.strategy' = 'on-event', lower flink.pipeline.auto-watermark-interval, or bound the "
            "delay in tuples too"
        )
