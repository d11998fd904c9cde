"""Results of an anonymization as typed values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.algorithm import Counters
from crenel.anonymity.model.outcomes import KINDS, REJECTIONS
from crenel.evidence.replay import Waited, delays_of
from crenel.operators.output_columns import RECORD_OUTPUTS, summary_counts

if TYPE_CHECKING:
    from crenel.settings import Settings


@dataclass(frozen=True)
class Summary:
    """Figures of a stream.

    Attributes
    ----------
    read : records that were pushed
    rejected : records that failed validation, by reason
    sampled_out : records that sampling excluded
    released : published records
    suppressed : suppressed records by reason; all of them unpublished, unless ``suppression`` is ``generalize``
    forgotten : buffered records that were erased with their persons
    synthetic : published records that noise added to the counts of ``Cells``; part of ``released``
    buffered : records that wait for their release
    releases : number of releases by kind
    mean_loss : mean InfoLoss of published records, from 0 to 1; None where none was published
    delay : waiting time of records in later tuples of their shard; None where none was admitted
    warnings : about input of which much is rejected or late, each with its field and a remedy; since the last restore
    shards : counts of each shard at the end of the stream, by the names of ``summary`` in docs/reference/outputs.md;
        empty before the end
    """

    read: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    sampled_out: int = 0
    released: int = 0
    suppressed: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = 0
    synthetic: int = 0
    buffered: int = 0
    releases: Mapping[str, int] = field(default_factory=dict)
    mean_loss: float | None = None
    delay: Waited | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)
    shards: Mapping[int, Mapping[str, float]] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as nested dictionaries."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{label:<12} {amount:>12} {note}".rstrip() for label, amount, note in self._lines()]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><th style='text-align:left'>{escape(label)}</th><td style='text-align:right'>{escape(amount)}</td>"
            f"<td style='text-align:left'>{escape(note)}</td></tr>"
            for label, amount, note in self._lines()
        )
        warned = "".join(f"<p>Warning: {escape(warning)}</p>" for warning in self.warnings)
        return f"<table>{''.join(rows)}</table>{warned}"

    def _lines(self) -> list[tuple[str, str, str]]:
        suppressed, rejected = sum(self.suppressed.values()), sum(self.rejected.values())
        lines = [
            ("records", f"{self.read:,}", ""),
            ("released", f"{self.released:,}", _share(self.released, self.read)),
            ("suppressed", f"{suppressed:,}", _share(suppressed, self.read) + _named(self.suppressed)),
            ("rejected", f"{rejected:,}", _share(rejected, self.read) + _named(self.rejected)),
        ]
        lines += [("sampled out", f"{self.sampled_out:,}", "")] if self.sampled_out else []
        lines += [("forgotten", f"{self.forgotten:,}", "")] if self.forgotten else []
        lines += [("synthetic", f"{self.synthetic:,}", "part of released")] if self.synthetic else []
        lines += [("buffered", f"{self.buffered:,}", "")] if self.buffered else []
        lines.append(("releases", f"{sum(self.releases.values()):,}", _named(self.releases).removeprefix(": ")))
        if self.mean_loss is not None:
            lines.append(("mean loss", f"{self.mean_loss:.4f}", ""))
        if self.delay is not None:
            lines.append(("delay", f"{self.delay.p50:,}", f"tuples (p50), p99 {self.delay.p99:,}"))
        return lines


@dataclass(frozen=True)
class Result:
    """Outputs of an anonymization, as tables; columns as in docs/reference/outputs.md.

    Attributes
    ----------
    released : one row per published record
    audit : one row per release
    suppressed : one row per suppressed record
    rejected : one row per record that failed validation
    further : outputs of the algorithm itself, by name, such as ``repairs``
    summary : figures of the whole stream so far
    """

    released: Any
    audit: Any
    suppressed: Any
    rejected: Any
    further: Mapping[str, Any]
    summary: Summary = field(default_factory=Summary)

    @classmethod
    def joined(cls, results: Sequence[Result]) -> Result:
        """Concatenate the outputs of consecutive steps; at least one."""
        last = results[-1]
        tables = {name: pa.concat_tables([getattr(result, name) for result in results]) for name in RECORD_OUTPUTS}
        further = {name: pa.concat_tables([result.further[name] for result in results]) for name in last.further}
        return cls(**tables, further=further, summary=last.summary)

    def mapped(self, convert: Callable[[pa.Table], Any]) -> Result:
        """Return the result with each table converted."""
        tables = {name: convert(getattr(self, name)) for name in RECORD_OUTPUTS}
        return replace(self, **tables, further={name: convert(table) for name, table in self.further.items()})


def summarize(
    settings: Settings,
    shards: Mapping[int, Counters],
    read: int,
    rejected: NDArray[np.int64],
    *,
    finished: bool,
    warnings: Iterable[str] = (),
) -> Summary:
    """Return the figures of a stream from the counters of its shards; ``finished``: whether the stream has ended."""
    counters = list(shards.values())
    released = sum(of.released for of in counters)
    return Summary(
        read=read,
        rejected={name: amount for name, amount in zip(REJECTIONS, rejected.tolist(), strict=True) if amount},
        sampled_out=sum(of.sampled_out for of in counters),
        released=released,
        suppressed=_positive({name: sum(of.suppressed[name] for of in counters) for name in settings.privacy.reasons}),
        forgotten=sum(of.forgotten for of in counters),
        synthetic=sum(of.synthetic for of in counters),
        buffered=sum(of.buffered for of in counters),
        releases=_positive({name: sum(of.releases[name] for of in counters) for name in KINDS}),
        mean_loss=sum(of.loss_sum for of in counters) / released if released else None,
        delay=delays_of(counters) if counters else None,
        warnings=tuple(warnings),
        shards={
            number: dict(summary_counts(settings.algorithm, settings.privacy, of))
            for number, of in (shards.items() if finished else ())
        },
    )


def _positive(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


def _named(amounts: Mapping[str, int]) -> str:
    return (
        ": " + ", ".join(f"{name.replace('_', ' ')} {amount:,}" for name, amount in amounts.items()) if amounts else ""
    )
