"""Signed reports of errors in Python workers, which no value of a record can forge.

Java passes on an error of a worker as text: Python's traceback, with whatever a library quotes of a record. A value may
look like a frame, a cause, or an error of ours, so nothing in that text can be told apart by its form. Each error
therefore carries a report that a worker has signed. The key is drawn by the process that builds the job, and stands in
the job alone; a record that somebody wrote cannot hold a signature under it. The same process reads the report.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crenel.anonymity.model.errors import InvariantError, PolicyError
from crenel.state.codec import StateError

_KEY = secrets.token_bytes(32)
"""The key of all jobs that this process builds."""

_REPORT = re.compile(r"crenel:([0-9a-f]{64}):([A-Za-z0-9+/=]+)")
_OURS = (InvariantError, PolicyError, StateError)
"""Errors whose messages hold no value of a record."""

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("operators", "anonymity", "state")


class _ReportError(Exception):
    """The cause that an error is given, so that Python prints the report with it (its notes need Python 3.11)."""


class ErrorSigner:
    """Signs the errors of a function; made where the job is built, and shipped with the function."""

    def __init__(self) -> None:
        self._key = _KEY

    @contextmanager
    def signing(self) -> Iterator[None]:
        """Give an error that leaves the block a signed report."""
        try:
            yield
        except Exception as error:
            first: BaseException = error
            while (
                before := first.__cause__ or (None if first.__suppress_context__ else first.__context__)
            ) is not None:
                first = before
            if not isinstance(first, _ReportError):
                first.__cause__ = _ReportError(_signed(self._key, _told(error)))
            raise


def signed_error(text: str) -> str | None:
    """Return the first report in a text that was signed for a job of this process; None where there is none."""
    for found in _REPORT.finditer(text):
        report = base64.b64decode(found[2] + "==").decode(errors="replace")
        if hmac.compare_digest(_signed(_KEY, report), found[0]):
            return report
    return None


def _signed(key: bytes, report: str) -> str:
    content = report.encode()
    return f"crenel:{hmac.digest(key, content, 'sha256').hex()}:{base64.b64encode(content).decode()}"


def _told(error: BaseException) -> str:
    """The message of an error of ours; of another one its class, and the last place of our code in its trace."""
    if isinstance(error, _OURS):
        return str(error)
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [(place, line) for file, line in frames if (place := _place(file)) is not None]
    where = f"{ours[-1][0]}, line {ours[-1][1]}" if ours else "a Python worker"
    return f"{type(error).__name__} in {where}; its message is withheld, because it may hold values of a record"


def _place(file: str) -> str | None:
    """A module of ours, relative to the packages; None for any other file."""
    path = Path(file)
    if not path.is_relative_to(_ROOT):
        return None
    found = path.relative_to(_ROOT)
    return found.as_posix() if found.parts[0] in _PACKAGES and path != Path(__file__) else None
