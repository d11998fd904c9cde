"""Blocks of a source, read locally without anonymization."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from crenel.anonymity.model.policy import Shards
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.anonymizer import encoded
from crenel.jobs.pipeline.build import job_setup, read_layout
from crenel.jobs.pipeline.bundle_timing import ends
from crenel.jobs.pipeline.job import conceal, upwards
from crenel.jobs.pipeline.source_table import append_only, read_from, read_options
from crenel.state.block import Block

_BEHIND = re.compile(r"watermark=\[-\(\S+, (\d+):INTERVAL")
"""Pattern of a watermark delay in Flink's plan."""


class SourceBlocks:
    """The blocks of all rows that a job would read, as one shard.

    Parameters
    ----------
    tables : environment in which the source is created
    config : of the job; its division of the stream is ignored
    file : file that replaces the source's rows (``crenel.jobs.pipeline.source_table.read_from``); None: read the source

    Attributes
    ----------
    plan : of the job
    ends : whether the source is bounded
    setup : facts to report if the source cannot be read
    lag : milliseconds of the watermark behind the event time of a row; 0 where it has another form

    Raises
    ------
    ConfigError
        As ``crenel.jobs.pipeline.build.read_layout`` does.
    """

    def __init__(self, tables: StreamTableEnvironment, config: Config, file: Path | None = None) -> None:
        if file is not None:
            config = replace(config, source=replace(config.source, ddl=read_from(tables, config.source, file)))
        found = read_layout(tables, config)
        self.plan = found.plan.readable
        self.setup = job_setup(tables, replace(config, sinks={}), read_options(tables, config))
        self.ends = _ends(tables)
        one = replace(self.plan, shards=Shards(), keys=self.plan.keys[:1])
        rows = encoded(tables, config, replace(found, plan=one))
        query = f"SELECT e.b AS b FROM ({rows}) WHERE e.b IS NOT NULL"
        behind = _BEHIND.search(tables.sql_query(query).explain())
        self._stream = append_only(tables, query)._j_data_stream
        self.lag = 0 if behind is None else int(behind[1])

    def read(self) -> Generator[Block, None, None]:
        """Run a job that reads the blocks; closing the iterator cancels it."""
        conceal(self._stream.getTransformation())
        get_gateway().jvm.org.apache.flink.python.util.PythonConfigUtil.configPythonOperator(
            self._stream.getExecutionEnvironment()
        )
        with closing(self._stream.executeAndCollect()) as rows:
            for number in count():
                if not rows.hasNext():
                    return
                yield Block.from_bytes(bytes(rows.next().getField(0)), self.plan.context.members, f"block {number}")


def _ends(tables: StreamTableEnvironment) -> bool:
    stream = append_only(tables, "SELECT 1 AS present FROM crenel_source")._j_data_stream
    return all(map(ends, upwards(stream.getTransformation(), set())))
