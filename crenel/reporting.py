"""Report page of a result within a Python process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crenel.anonymity.model.fields import DurationLike
from crenel.assessment import outputs_of
from crenel.evidence.attack.result import AttackResults
from crenel.evidence.report.context import Flow
from crenel.evidence.report.distributions import Came
from crenel.evidence.report.page import Place, ReportPage
from crenel.evidence_inputs import about
from crenel.results import Result, Summary
from crenel.settings import Settings
from crenel.stream import read_sample

_DELAY = "delay."


def report(
    result: Result,
    settings: Settings,
    path: str | Path | None = None,
    *,
    data: Any = None,
    attacks: Sequence[AttackResults] = (),
    name: str = "result",
    lateness: DurationLike = 0,
) -> str:
    """Return the HTML page of a result, as ``crenel report`` writes it for a job; needs the extra ``report``.

    The page describes the guarantees, the fate of records, the size of equivalence classes, the loss and the delay, in
    words, figures and tables. It is self-contained, and holds no value of one person's quasi-identifiers.

    Parameters
    ----------
    result : all outputs of ``anonymize``, or of a stream that has finished
    settings : the settings under which they were made
    path : file to write the page to, with access for its owner alone; None: no file
    data : the original records, to show their distribution beside that of the published ones; None: without it
    attacks : results of ``attack``, to be shown on the page
    name : title of the page
    lateness : as for ``anonymize``

    Raises
    ------
    ReportError
        A package of the extra ``report`` is missing, or the file cannot be written.
    ValueError
        A table lacks a column or holds values of another type, or ``data`` has another number of valid records than
        were read.

    Examples
    --------
    >>> import crenel, pyarrow as pa
    >>> visits = pa.table({"age": [31, 34, 58, 52], "diagnosis": ["flu", "asthma", "flu", "back pain"]})
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]),
    ...     privacy=crenel.Privacy(k=2, l=2),
    ...     algorithm=crenel.Nearest(crenel.Delay(tuples=100)),
    ...     seed=1,
    ... )
    >>> page = crenel.report(crenel.anonymize(visits, settings), settings, name="visits")
    >>> "<h1>Published records: visits</h1>" in page
    True
    """
    place = None if path is None else Place(Path(path))
    config, summary = settings, result.summary
    outputs = outputs_of(result, settings)
    rows, warnings = outputs.released.num_rows, [*config.warnings]
    if rows != summary.released:
        warnings.append(
            f"result.released: holds {rows:,} rows, and the stream released {summary.released:,}, so only the flow and "
            "the delay below are exactly of this stream"
        )
    page = ReportPage(outputs, about(config, name, warnings))
    came = None
    if data is not None and page.axes:
        sample, _ = read_sample(data, settings, lateness=lateness)
        valid = summary.read - sum(summary.rejected.values())
        if len(sample) != valid:
            raise ValueError(f"data: has {len(sample):,} valid records, and the result is of {valid:,}; give its data")
        came = Came(page.axes, sample.policy)
        came.add(sample.tuples)
    text = page.html(_flow(summary), came=came, attacks=[attack for results in attacks for attack in results.attacks])
    if place is not None:
        place.write(text)
    return text


def _flow(summary: Summary) -> Flow:
    """Return the numbers of records by their fate, as the page shows them."""
    published, delays = summary.releases.get("generalized", 0), Counter[int]()
    for counts in summary.shards.values():
        for name, tuples in counts.items():
            if name.startswith(_DELAY):
                delays[int(name.removeprefix(_DELAY))] += int(tuples)
    return Flow(
        released=summary.released - published,
        rows_in=summary.read,
        sampled_out=summary.sampled_out,
        suppressed=summary.suppressed,
        rejected=summary.rejected,
        published=published,
        forgotten=summary.forgotten,
        delays=delays or None,
        longest_delay=summary.delay.longest if delays and summary.delay is not None else None,
        synthetic=summary.synthetic,
    )
