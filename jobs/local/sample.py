"""A sample of what a job would read, encoded, from a mini-cluster in this process."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from anonymity.policy import Policy
from anonymity.regions.loss import Sample
from anonymity.regions.sampler import Sampler
from jobs.config.load import Config
from jobs.failure import why_failed
from jobs.local.ahead import start_java
from jobs.local.run import JobError, flink_logs, hang_up_quietly, local_settings, refused


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
        sampler, rejected = Sampler(rows, first=not source.ends), 0
        try:
            with closing(source.read()) as blocks:
                for block in blocks:
                    sampler.add(block)
                    rejected += len(block.rejected.column)
                    if sampler.full:
                        break
        except (Py4JError, JavaException) as error:
            raise JobError(f"the source cannot be read: {why_failed(error)}", logs) from None
    return Sampled(source.policy, source.ends, sampler.seen, rejected, sampler.sample)
