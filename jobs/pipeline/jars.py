"""Jars that a configuration names for Flink, such as that of a connector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote
from zipfile import is_zipfile

from pyflink.common import Configuration

from crenel.jobs.config.load import ConfigError
from crenel.jobs.config.paths import local_path

JARS = ("pipeline.jars", "pipeline.classpaths")
"""Settings of Flink that list jars. ``flink run`` sets them to Flink's own jar for Python."""


def jars(settings: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of ``JARS`` for a job: present jars, followed by those of the configuration.

    Parameters
    ----------
    settings : of the configuration; paths are relative to the working directory, and any URL is valid
    present : values of these settings in the environment

    Raises
    ------
    ConfigError
        A local file does not exist, or is not a jar.
    """
    problems: list[str] = []
    found: dict[str, str] = {}
    for name in JARS:
        if name in settings:
            before = Configuration.parse_list_value(present.get(name, ""))
            given = list(_urls(name, settings[name], problems))
            found[name] = ";".join(dict.fromkeys([*before, *given]))
    if problems:
        raise ConfigError("flink", problems)
    return found


def _urls(name: str, value: str, problems: list[str]) -> Iterator[str]:
    for text in map(str.strip, Configuration.parse_list_value(value)):
        path = local_path(text)
        if path is not None and not path.exists():  # Java reads a URL, in which '%20' is a space
            path = Path(unquote(str(path)))
        if path is None:
            yield text
        elif not text or not (path.is_file() if name == JARS[0] else path.exists()):
            problems.append(
                f"flink.{name}: {text or 'an empty path'} is not there; name each jar by its path or as "
                "file:///path/to.jar, with ';' between two"
            )
        elif path.is_file() and not is_zipfile(path):
            problems.append(
                f"flink.{name}: {text} is not a jar, as it is no ZIP archive; name the .jar file itself, such as "
                "flink-sql-connector-kafka-VERSION.jar from Maven (docs/operations.md#from-kafka-to-kafka)"
            )
        else:
            yield path.absolute().as_uri()
