"""Check that a source only appends rows, because published rows cannot be retracted."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyflink.datastream import DataStream
from pyflink.table import StreamTableEnvironment
from pyflink.util.exceptions import JavaException

from crenel.jobs.config.delivery import CHANGES
from crenel.jobs.config.load import ConfigError

_CHANGES = re.compile(r"doesn't support consuming [a-z, ]+ which is produced by node (?P<node>\w+)")
_SCAN = "TableSourceScan"


def append_only(tables: StreamTableEnvironment, query: str) -> DataStream:
    """Return the rows of a query as a stream.

    Raises
    ------
    ConfigError
        The query updates or deletes earlier rows.
    """
    try:
        return tables.to_data_stream(tables.sql_query(query))
    except (Py4JError, JavaException) as error:
        found = _CHANGES.search(getattr(error, "stack_trace", None) or str(error))
        if found is None:
            raise
        field = "source.ddl" if found["node"] == _SCAN else "source.query"
        raise ConfigError("it", [f"{field}: {CHANGES[field]}"]) from None
