"""Paths that a configuration names, as Flink reads them, and checks of files and folders of this machine."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_URI = re.compile(r"(?:(?P<scheme>[^/:]+):)?(?://(?P<authority>[^/]*)(?=/|$))?(?P<path>.*)", re.DOTALL)

_ALIASES = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "abfss": "abfs", "wasbs": "wasb"}
"""Alternative schemes for the same store in Flink's file systems."""


def locate(path: str) -> tuple[str, ...]:
    """Return the parts of a path as Flink reads it, the root first; equal for all spellings of one place.

    Flink takes a path literally, also in a URI: ``%20`` is no space. Symbolic links of this machine are resolved.
    """
    scheme, authority, rest = _parts(path)
    # Flink removes '..' before the file system follows a link.
    rest = posixpath.normpath(re.sub("/+", "/", rest)) if rest else "/"
    if scheme == "file":
        root, rest = "file:", os.path.realpath(rest) if "\0" not in rest else rest
    else:
        root = f"{_ALIASES.get(scheme, scheme)}://{authority.lower()}"
    return (root, *(part for part in rest.split("/") if part))


def local_path(text: str) -> Path | None:
    """Return the path that a text or a URI names for Flink; None if it is not local.

    Flink decodes nothing in a path: ``file:///a%20b`` is the file ``a%20b``.
    """
    scheme, _, path = _parts(text)
    return Path(path) if scheme == "file" else None


def file_uri(path: Path) -> str:
    """Return the URI that names a path for Flink; ``Path.as_uri`` encodes characters that Flink does not decode."""
    return f"file://{path.absolute()}"


def local_folder(options: Mapping[str, str]) -> Path | None:
    """Return the folder of a table with the connector ``filesystem``; None for other connectors and remote folders."""
    text = options.get("path", "")
    return local_path(text) if options.get("connector") == "filesystem" and text else None


def find_missing_inputs(sources: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a message for each file source that does not exist on this machine, for a local job.

    Parameters
    ----------
    sources : options of the tables that are read, by the field of their statement
    """
    for field, options in sources.items():
        folder = local_folder(options)
        if folder is not None and not folder.exists():
            yield f"{field}: 'path' = '{folder}' is not there; give the path of a file or a folder on this machine"


def holds_files(folder: Path) -> bool:
    """Return whether a folder holds a finished file; unfinished files are hidden."""
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        if not all(name.startswith((".", "_")) for name in files):
            return True
    return False


def _parts(path: str) -> tuple[str, str, str]:
    """Return scheme, authority and path of a path or URI."""
    found = _URI.fullmatch(path)
    assert found is not None  # every text matches
    return (found["scheme"] or "file").lower(), found["authority"] or "", found["path"]
