"""Implementation of ``crenel forget``: writes requests into the table that the job reads them from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.config.load import load
from crenel.jobs.local.logs import flink_logs
from crenel.jobs.local.preload import start_java
from crenel.jobs.local.run import local_settings, refused
from crenel.jobs.local.stop import temporary_folder

_NO_STREAM = (
    "source.forget: is missing, so the job reads no requests; give the table that it reads them from, in ddl, stop the "
    "job with a savepoint, and go on from that"
)


def request(path: Path, overrides: Sequence[str], subjects: Sequence[str], console: Console) -> None:
    """Write a request for each of some persons, and print the codes under which the job's output reports them.

    Parameters
    ----------
    path : of the configuration of the job, which runs elsewhere
    subjects : the persons, as ``policy.subject`` has them; written as SQL casts text

    Raises
    ------
    ConfigError
        The configuration is not valid or has no ``source.forget``, its table cannot be written to, or a subject is no
        value of the column's type. No message holds a subject.
    JavaError
        No usable Java.
    """
    config = load(path, overrides)
    source = config.source.forget
    if source is None:
        raise ConfigError(path, [_NO_STREAM])
    with flink_logs(), temporary_folder("crenel-") as folder:
        java = start_java()
        from py4j.protocol import Py4JError
        from pyflink.util.exceptions import JavaException

        from crenel.jobs.pipeline.build import read_layout
        from crenel.jobs.pipeline.environment import local_environment
        from crenel.jobs.pipeline.side_streams import codes_of, column_of, read_forget, subject_of, write_requests

        java.join()
        settings = local_settings(config.flink, 1, folder)
        try:
            tables = local_environment(settings, checkpoints=False)
            layout = read_layout(tables, config)
            subject_of(read_forget(tables, source), layout)
            codes = codes_of(tables, config, layout, subjects)
            column = column_of(tables)
            # Rows of a batch job are visible once the command ends, and not with the next checkpoint. The table may be
            # unbounded, because the batch job does not read it.
            batches = local_environment({**settings, "execution.runtime-mode": "BATCH"}, checkpoints=False)
            write_requests(batches, source, column, subjects)
        except (Py4JError, JavaException) as error:
            raise refused(error, config) from None
    console.print(f"{len(codes)} requests were written. The output 'forgotten' reports them by these codes, in order:")
    for code in codes:
        console.print(code)
