"""Folders for Flink's logs of a local run, kept after a failure."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crenel.jobs.local import folders
from crenel.jobs.local.stop import make_folder, temporary_folder

_PREFIX = "crenel-log-"
_prepared: list[Path] = []  # a folder that Java knows already, before a block of ``flink_logs`` uses it


class JobError(RuntimeError):
    """Error for a job that did not reach its end.

    Attributes
    ----------
    logs : the folder with Flink's logs, which are kept
    """

    def __init__(self, message: str, logs: Path) -> None:
        self.logs = logs
        super().__init__(message)


def begin_logs() -> None:
    """Make the log folder for the next block of ``flink_logs``; without one, this process removes it at its end.

    From here on, this process prints no log: py4j logs a connection that broke to the root logger, which would print it
    in front of the command's own message.
    """
    logging.getLogger().addHandler(logging.NullHandler())
    folder = make_folder(_PREFIX)
    _prepared.append(folder)
    _log_to(folder)
    atexit.register(_remove_prepared)


@contextmanager
def flink_logs() -> Iterator[Path]:
    """Send the logs of Flink and of Python workers in this process to a folder, and keep it after a ``JobError``.

    Enter it before anything starts the Java gateway, which reads these settings once.
    """
    with temporary_folder(_PREFIX, kept_on=(JobError,), made=_prepared.pop() if _prepared else None) as folder:
        _log_to(folder)
        handler = logging.FileHandler(folder / "python.log", delay=True, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        logging.getLogger().addHandler(handler)
        try:
            yield folder
        finally:
            logging.getLogger().removeHandler(handler)
            handler.close()


def _log_to(folder: Path) -> None:
    os.environ["FLINK_LOG_DIR"] = str(folder)
    os.environ.setdefault("ROOT_LOG_LEVEL", "WARN")


def _remove_prepared() -> None:
    for folder in _prepared:
        folders.remove(folder)
