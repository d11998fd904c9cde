"""A sample of what a job would read, encoded, from a mini-cluster in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anonymity.policy import Policy
from anonymity.regions.loss import Sample
from anonymity.regions.sampler import Sampler
from jobs.config.load import Config
from jobs.failure import why_failed
from jobs.local.ahead import start_java
from jobs.local.run import JobError, flink_logs, hang_up_quietly, local_settings, refused

if TYPE_CHECKING:
    from jobs.wiring.sampling import SourceBlocks
    from state.block import Block


@dataclass(frozen=True)
class Sampled:
    """What was read.

    Attributes
    ----------
    policy : with what follows from the columns of the source
    ends : whether the source does; all of it was read then, else only its beginning
    tuples, rejected : how many were let in, and how many rows were not
    sample : of those let in; None where none was
    """

    policy: Policy
    ends: bool
    tuples: int
    rejected: int
    sample: Sample | None


def read_sample(config: Config, rows: int) -> Sampled:
    """Read a source that ends, and keep so many tuples of it at random; else its first tuples.

    Raises
    ------
    ConfigError, JobError, JavaError, KeyboardInterrupt
        As ``jobs.local.run.run`` does.
    """
    rejected = 0
    with reading(config) as (source, blocks):
        sampler = Sampler(rows, first=not source.ends)
        for block in blocks:
            sampler.add(block)
            rejected += len(block.rejected.column)
            if sampler.full:
                break
    return Sampled(source.policy, source.ends, sampler.seen, rejected, sampler.sample)


@contextmanager
def reading(config: Config) -> Iterator[tuple[SourceBlocks, Iterator[Block]]]:
    """A source and its blocks, read by a job that is cancelled when the block of code ends.

    Raises
    ------
    ConfigError, JobError, JavaError, KeyboardInterrupt
        As ``jobs.local.run.run`` does.
    """
    with flink_logs() as logs, tempfile.TemporaryDirectory(prefix="crenel-") as name:
        hang_up_quietly()
        java = start_java()
        from py4j.protocol import Py4JError
        from pyflink.util.exceptions import JavaException

        from jobs.wiring.environment import local_environment
        from jobs.wiring.sampling import SourceBlocks

        java.join()
        settings = local_settings(config.flink, None, Path(name))
        try:
            # With checkpoints, what was read would only come with the next of them.
            source = SourceBlocks(local_environment(settings, checkpoints=False), config)
        except (Py4JError, JavaException) as error:
            raise refused(error) from None
        try:
            with closing(source.read()) as blocks:
                yield source, blocks
        except (Py4JError, JavaException) as error:
            raise JobError(f"the source cannot be read: {why_failed(error)}", logs) from None
