"""Local files and folders that a configuration names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from crenel.jobs.config.catalogs import CatalogTable
from crenel.jobs.config.delivery import OF_RECORDS
from crenel.jobs.config.flink_settings import FOLDERS

_URI = re.compile(r"(?P<scheme>[^/:]+):(?://[^/]*)?(?P<path>.*)", re.DOTALL)


def local_path(text: str) -> Path | None:
    """Return the path that a text or a URI names for Flink; None if it is not local.

    Flink decodes nothing in a path: ``file:///a%20b`` is the file ``a%20b``.
    """
    found = _URI.fullmatch(text)
    if found is None:
        return Path(text)
    return Path(found["path"]) if found["scheme"] == "file" else None


def file_uri(path: Path) -> str:
    """Return the URI that names a path for Flink; ``Path.as_uri`` encodes characters that Flink does not decode."""
    return f"file://{path.absolute()}"


def local_folder(options: Mapping[str, str]) -> Path | None:
    """Return the folder of a table with the connector ``filesystem``; None for other connectors and remote folders."""
    text = options.get("path", "")
    return local_path(text) if options.get("connector") == "filesystem" and text else None


def paths_by_field(sinks: Mapping[str, Mapping[str, str]], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the paths that sinks and settings of Flink name, by their fields."""
    of_sinks = {f"sinks.{name}.path": options["path"] for name, options in sinks.items() if options.get("path")}
    return of_sinks | {f"flink.{name}": settings[name] for name in FOLDERS if settings.get(name)}


def path_warnings(sources: Mapping[str, Mapping[str, str]], sinks: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a warning for each missing input and unwritable output on this machine, with its field.

    Parameters
    ----------
    sources : options of the tables that are read, by the field of their statement
    sinks : options of the connector by output
    """
    for field, options in sources.items():
        read = local_folder(options)
        if read is not None and not read.exists():
            yield f"{field}: 'path' = '{read}' is not there; a cluster must find it on every TaskManager"
    for name, options in sinks.items():
        folder = local_folder(options)
        problem = None if folder is None else why_unwritable(folder)
        if problem is not None:
            yield f"sinks.{name}.path: {folder} cannot be written: {problem}"


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


def leftover_warnings(sinks: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a warning if a job without initial state would publish into folders with files; ``sinks`` as above."""
    folders = {name: local_folder(sinks.get(name, {})) for name in OF_RECORDS}
    filled = [f"sinks.{name}.path" for name, folder in folders.items() if folder is not None and _holds_files(folder)]
    if filled:
        yield (
            f"{', '.join(filled)}: there are files already. A job that starts without state publishes beside them, and "
            "what it reads once more leaves once more, under another generalization; give an empty folder, or go on "
            "from the state of the job that wrote them"
        )


def why_unwritable(folder: Path) -> str | None:
    """Return the reason why a folder is not writable; None if it is writable."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is no folder"
    return None if os.access(place, os.W_OK | os.X_OK) else f"who runs this may not write in {place}"


def find_unusable_warehouses(source: CatalogTable | None, sinks: Iterable[CatalogTable]) -> Iterator[str]:
    """Yield a message for each warehouse in a folder of this machine that is missing, or cannot be written.

    Parameters
    ----------
    source : the table that is read, whose warehouse exists: Paimon would create a missing one, and find no table in it
    sinks : tables that are written
    """
    if source is not None:
        folder = local_path(source.settings.get("warehouse", "s3:"))
        if folder is not None and not folder.exists():
            yield f"catalogs.{source.catalog}.warehouse: {folder} does not exist; correct the path"
    for name, place in {table.catalog: table.settings.get("warehouse", "s3:") for table in sinks}.items():
        folder = local_path(place)
        if folder is not None and (problem := why_unwritable(folder)) is not None:
            yield (
                f"catalogs.{name}.warehouse: {folder} cannot be written: {problem}; create it, correct the path, or "
                "grant the rights"
            )


def _holds_files(folder: Path) -> bool:
    """Return whether a folder holds a finished file; unfinished files are hidden."""
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _hidden(name)]
        if not all(map(_hidden, files)):
            return True
    return False


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))
