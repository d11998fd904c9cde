"""Samples of a job's input, encoded by a mini-cluster in this process, and a check of its first rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.regions.learn import Sampler
from crenel.anonymity.regions.loss import EncodedSample
from crenel.evidence.input_warnings import rejection_warnings
from crenel.evidence.sample import Sample
from crenel.jobs.config.load import Config
from crenel.jobs.config.paths import local_folder
from crenel.jobs.config.source import parse_options
from crenel.jobs.failure import why_failed
from crenel.jobs.local.logs import JobError, flink_logs
from crenel.jobs.local.preload import start_java
from crenel.jobs.local.run import ignore_disconnects, local_settings, refused, require_inputs
from crenel.jobs.local.stop import temporary_folder
from crenel.jobs.pipeline.source_table import SampleError
from crenel.state.block import Block

if TYPE_CHECKING:
    from crenel.jobs.pipeline.sampling import SourceBlocks

_FEWEST = 2
"""Minimum number of tuples of a sample."""

_FIRST_ROWS = 1000
"""Number of rows that the check of the first rows reads, rounded up to whole blocks."""

_LARGEST_BLOCK = "256 mb"
"""Maximum size of a block. Flink's own, 2 MB, fails the job on a record with a long text or array."""


@dataclass(frozen=True)
class Sampled:
    """A sample of a source, with its counts.

    Attributes
    ----------
    policy : completed by the columns of the source
    ends : whether the source is bounded; if so all of it was read, else only its beginning
    tuples, rejected : number of admitted tuples, and of rejected rows
    sample : of the admitted tuples; None without any
    """

    policy: Policy
    ends: bool
    tuples: int
    rejected: int
    sample: EncodedSample | None


def read_sample(config: Config, rows: int | None) -> Sampled:
    """Read a random sample of a bounded source, or the first tuples of an unbounded one.

    Parameters
    ----------
    rows : size of the sample; None: the first record of each person, of a bounded source

    Raises
    ------
    ConfigError, JobError, JavaError
        As ``crenel.jobs.local.run.run`` does. A sample of all persons needs a bounded source.
    """
    rejected, persons = 0, set[int]()
    with reading(config) as (source, blocks):
        if rows is None and not source.ends:
            raise ConfigError(
                "it", [f"{config.source.field}: --private reads one record of each person, so the source must end"]
            )
        sampler = Sampler(2**62 if rows is None else rows, first=rows is None or not source.ends)
        for block in blocks:
            sampler.add(_first_of_persons(block, persons) if rows is None else block)
            rejected += len(block.rejected.column)
            if sampler.full:
                break
    return Sampled(source.plan.policy, source.ends, sampler.seen, rejected, sampler.sample)


def _first_of_persons(block: Block, persons: set[int]) -> Block:
    """Return the block with the first record of each person who is not in ``persons``, which grows by them."""
    if block.subject is None:
        return block
    new = np.zeros(len(block), np.bool_)
    _, first = np.unique(block.subject, return_index=True)
    new[[row for row in first.tolist() if int(block.subject[row]) not in persons]] = True
    persons.update(block.subject[new].tolist())
    return Block(shard=block.shard, **block.chosen(new))


@dataclass(frozen=True)
class Beginning:
    """The first tuples of a source, in order, for replays.

    Attributes
    ----------
    sample : the tuples
    privacy : configured privacy models, with the codes of their references
    is_complete : whether the sample is the complete source
    """

    sample: Sample
    privacy: Privacy
    is_complete: bool


def read_beginning(config: Config, rows: int, file: Path | None = None) -> Beginning:
    """Read the first tuples of a source, or all if it is shorter.

    Parameters
    ----------
    rows : tuples, 1 or more
    file : file that replaces the source's rows; None: read the source

    Raises
    ------
    ConfigError, JobError, JavaError
        As ``crenel.jobs.local.run.run`` does.
    SampleError
        Fewer than two tuples were read, or the file cannot replace the source.
    """
    read_blocks: list[Block] = []
    is_complete = True
    with reading(config, file) as (source, blocks):
        for block in blocks:
            read_blocks.append(block)
            if sum(map(len, read_blocks)) > rows:
                is_complete = False
                break
    tuples, rejected = sum(map(len, read_blocks)), sum(len(block.rejected.column) for block in read_blocks)
    if tuples < _FEWEST:
        place = f"{config.source.field}: the source" if file is None else f"--sample: {file}"
        raise SampleError(f"{place} {_too_few(tuples, rejected)}")
    sample = Sample.of_blocks(source.plan.policy, read_blocks, lag=source.lag, plan=source.plan)
    return Beginning(sample.first(rows), source.plan.context.privacy, is_complete)


def _too_few(tuples: int, rejected: int) -> str:
    rows = f"gave {tuples} tuple{'' if tuples == 1 else 's'}, and {rejected:,} rows were rejected"
    return f"{rows}; a sample needs {_FEWEST} tuples, and says something from a few thousand on"


@contextmanager
def reading(config: Config, file: Path | None = None) -> Iterator[tuple[SourceBlocks, Iterator[Block]]]:
    """Yield the source on a mini-cluster, and an iterator over its blocks, which reads on demand."""
    if file is None:
        require_inputs({config.source.field: parse_options(config.source.ddl)}, config.flink)
    with flink_logs() as logs, temporary_folder("crenel-") as folder:
        ignore_disconnects()
        java = start_java()
        from py4j.protocol import Py4JError
        from pyflink.util.exceptions import JavaException

        from crenel.jobs.pipeline.environment import local_environment
        from crenel.jobs.pipeline.sampling import SourceBlocks

        java.join()
        settings = {**local_settings(config.flink, None, folder), "collect-sink.batch-size.max": _LARGEST_BLOCK}
        try:
            # Checkpoints would delay each result until the next of them.
            source = SourceBlocks(local_environment(settings, checkpoints=False), config, file)
        except (Py4JError, JavaException) as error:
            raise refused(error, config) from None
        try:
            with closing(source.read()) as blocks:
                yield source, blocks
        except (Py4JError, JavaException) as error:
            raise JobError(f"the source cannot be read: {why_failed(error, source.setup)}", logs) from None


def first_row_warnings(config: Config, source: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about rows that would be rejected, each with its field; none for remote or unbounded sources.

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
            rows, counts = _first(blocks) if read.ends else (0, Counter[tuple[int, int]]())
            columns, policy = read.plan.checked, read.plan.policy
    except JobError as error:
        yield f"{config.source.field}: {error}. Flink's logs are in {error.logs}; they may hold values of records"
        return
    rejected = {(columns[column], REJECTIONS[reason]): count for (column, reason), count in counts.items()}
    yield from rejection_warnings(policy, rows, rejected, share=0, prefix="the first ")


def _first(blocks: Iterator[Block]) -> tuple[int, Counter[tuple[int, int]]]:
    """Return the number of rows read, and that of rejected rows by the positions of column and reason."""
    rows, counts = 0, Counter[tuple[int, int]]()
    for block in blocks:
        rows += len(block) + len(block.rejected.column)
        counts.update(block.rejected.pairs)
        if rows >= _FIRST_ROWS:
            break
    return rows, counts
