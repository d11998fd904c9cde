"""Sample file that replaces the source's rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyflink.table import StreamTableEnvironment

from crenel.anonymity.model.errors import InputError
from crenel.jobs.config.load import Source
from crenel.jobs.config.paths import file_uri
from crenel.jobs.pipeline.source_table import SOURCE, parsing, source_table
from crenel.jobs.pipeline.sql_types import literal

_GIVEN = "crenel_given_source"
_FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_READ = (*dict.fromkeys(_FORMATS.values()), "raw")  # raw: any content of lines


class SampleError(InputError):
    """Error for a file that is no sample; the message names the field or the option and valid alternatives."""


def read_from(tables: StreamTableEnvironment, source: Source, file: Path) -> str:
    """Return the DDL of a table ``source`` with the same columns and watermark, whose rows come from a file.

    A file source reads this file instead, in its own format. Other sources are read as CSV or JSON: by their own format
    if it is one of these or raw, else by the ending of the file.

    Raises
    ------
    SampleError
        The file does not exist, or its format is unknown.
    """
    if not file.exists():
        raise SampleError(f"--sample: {file} is not there; give a file with rows as the source has them")
    with parsing("source.ddl", source.varied):
        tables.execute_sql(source.ddl)
    options = source_table(tables).options
    if options is None:
        raise SampleError("--sample: source.ddl creates no table 'source' with a connector that could be replaced")
    changed = {"path": file_uri(file)}
    if options.get("connector") != "filesystem":
        changed |= {"connector": "filesystem", **_format(options, file)}
        kept = "EXCLUDING OPTIONS"
    else:
        kept = "OVERWRITING OPTIONS"
    settings = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in changed.items())
    tables.execute_sql(f"CREATE TEMPORARY TABLE {_GIVEN} WITH ({settings}) LIKE {SOURCE} ({kept})")
    tables.execute_sql(f"DROP TEMPORARY TABLE {SOURCE}")
    return f"CREATE TEMPORARY TABLE {SOURCE} LIKE {_GIVEN}"


def _format(options: Mapping[str, str], file: Path) -> dict[str, str]:
    """Return the options of the file's format, derived from those of another connector."""
    given = {name.removeprefix("value."): value for name, value in options.items()}
    name = given.get("format")
    if name not in _READ:
        name = _FORMATS.get(file.suffix.lower())
    if name is None:
        raise SampleError(f"--sample: {file.name} has an ending that is not known; one of {', '.join(_FORMATS)}")
    return {"format": name, **{key: value for key, value in given.items() if key.startswith(f"{name}.")}}
