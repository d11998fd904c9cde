"""Check for unknown Flink settings, which Flink ignores silently."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import ZipFile

from pyflink.find_flink_home import _find_flink_home

from crenel.jobs.config.explain import meant

_CLASS = re.compile(r"org/apache/flink/(?!.*shaded)[\w/]+\.class")
_OPTION = b"/ConfigOption;"
_CONSTANT = re.compile(rb"\x01(..)([a-z][a-z0-9-]*(?:\.[A-Za-z0-9_-]+)+)", re.DOTALL)
"""A text in a class file (Java Virtual Machine Specification, 4.4.7): a tag, two bytes of length, and the bytes."""

_OPEN = re.compile(
    r"(?:s3a?|gs|oss|abfs|wasb|fs|dfs|presto|hive|hadoop|flink\.hadoop|azure)\."
    r"|(?:metrics|traces|events)\.(?:reporter|scope\.variables)\."
    r"|state\.backend\.(?:rocksdb|forst)\.metrics\."
    r"|(?:env|kubernetes|yarn|containerized)\."
    r"|security\.delegation\.token\.provider\."
)
"""Prefixes under which file systems, reporters and platforms read names of their own."""


def unknown_settings(names: Iterable[str]) -> Iterator[str]:
    """Yield a message for each setting without an option in this Flink, with a suggestion.

    A known name, followed by a dot and a suffix, counts as an entry of a map option.
    """
    asked = {name: _and_above(name) for name in names if not _OPEN.match(name)}
    known: set[str] = set()
    for option in _options() if asked else ():
        known.add(option)
        asked = {name: those for name, those in asked.items() if option not in those}
        if not asked:
            return
    for name in asked:
        yield (
            f"flink.{name}: is no setting of this Flink's{meant(name, sorted(known))}, and Flink says nothing of one "
            "that it does not know"
        )


def _and_above(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}


def _options() -> Iterator[str]:
    """Yield the names of options, current and deprecated: all strings of that form in classes that use options.

    Asking Java for each option takes a second or two, and misses classes that cannot be loaded here.
    """
    home = Path(_find_flink_home())
    for jar in sorted([*home.glob("lib/flink-*.jar"), *home.glob("opt/flink-python*.jar")]):
        with ZipFile(jar) as file:
            for name in filter(_CLASS.fullmatch, file.namelist()):
                content = file.read(name)
                if _OPTION in content:
                    for length, text in _CONSTANT.findall(content):
                        if len(text) == int.from_bytes(length, "big"):
                            yield text.decode()
