"""Check of the first rows of a local file source against the configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.jobs.config.load import Config
from crenel.jobs.config.paths import local_folder
from crenel.jobs.local.logs import JobError
from crenel.jobs.local.sample import reading
from crenel.state.block import Block

_ROWS = 1000
_UNKNOWN = "unknown_category"


def cautions_of_first_rows(config: Config, source: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about unknown categories, each with its field; none for remote or unbounded sources.

    ``source``: options of the table. No warning holds a value of a row.

    Raises
    ------
    ConfigError, JavaError, KeyboardInterrupt
        As ``crenel.jobs.local.run.run`` does.
    """
    folder = local_folder(source)
    if folder is None or not folder.exists() or "source.monitor-interval" in source:
        return
    try:
        with reading(config) as (read, blocks):
            rows, strange = _first(blocks) if read.ends else (0, Counter[int]())
            columns = read.plan.encoded
    except JobError as error:
        yield f"source.ddl: {error}. Flink's logs are in {error.logs}; they may hold values of records"
        return
    for column, count in strange.items():
        yield (
            f"policy.quasi_identifiers.{columns[column]}.hierarchy: {count:,} of the first {rows:,} rows of the source "
            f"have a category that it lacks, and would be rejected as {_UNKNOWN}; add it, or mend it in source.query"
        )


def _first(blocks: Iterator[Block]) -> tuple[int, Counter[int]]:
    """Return the number of rows read, and the rows with an unknown category by the column's position."""
    rows, strange = 0, Counter[int]()
    for block in blocks:
        rejected = block.rejected
        rows += len(block) + len(rejected.column)
        strange.update(rejected.column[rejected.reason == REJECTIONS.index(_UNKNOWN)].tolist())
        if rows >= _ROWS:
            break
    return rows, strange
