"""Signed reports of errors in Python workers, which no value of a record can forge.

Java passes on a worker's error as text: Python's traceback, with any record values that a library quotes. A value may
look like a frame, a cause, or a Crenel error, so the form of that text proves nothing. Each error therefore carries a
report signed by a worker. The process that builds the job draws the key, and only the job contains it; a record cannot
contain a signature under it. The same process reads the report.
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
"""Errors whose messages contain no value of a record."""

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("operators", "anonymity", "state")


class _ReportError(Exception):
    """Cause attached to an error, so that Python prints the report with it (its notes need Python 3.11)."""


class ErrorSigner:
    """Signer of a function's errors; created with the job, and shipped with the function."""

    def __init__(self) -> None:
        self._key = _KEY

    @contextmanager
    def signing(self) -> Iterator[None]:
        """Attach a signed report to an error that leaves the block."""
        try:
            yield
        except Exception as error:
            first: BaseException = error
            while (
                before := first.__cause__ or (None if first.__suppress_context__ else first.__context__)
            ) is not None:
                first = before
            if not isinstance(first, _ReportError):
                first.__cause__ = _ReportError(_signed(self._key, _message(error)))
            raise

    def report(self, error: PolicyError) -> str:
        """Return the message of an error with a signed report of it, for an output of the operator."""
        return f"{error}\n{_signed(self._key, str(error))}"


def signed_error(text: str) -> str | None:
    """Return the first report in a text that was signed for a job of this process; None where there is none."""
    for match in _REPORT.finditer(text):
        report = base64.b64decode(match[2] + "==").decode(errors="replace")
        if hmac.compare_digest(_signed(_KEY, report), match[0]):
            return report
    return None


def _signed(key: bytes, report: str) -> str:
    content = report.encode()
    return f"crenel:{hmac.digest(key, content, 'sha256').hex()}:{base64.b64encode(content).decode()}"


def _message(error: BaseException) -> str:
    """Return the message of a Crenel error; for others the class and the last Crenel line of the trace."""
    if isinstance(error, _OURS):
        return str(error)
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [(place, line) for file, line in frames if (place := _place(file)) is not None]
    where = f"{ours[-1][0]}, line {ours[-1][1]}" if ours else "a Python worker"
    return f"{type(error).__name__} in {where}; its message is withheld, because it may hold values of a record"


def _place(file: str) -> str | None:
    """Return the path of a Crenel module, relative to the packages; None for any other file."""
    path = Path(file)
    if not path.is_relative_to(_ROOT):
        return None
    relative = path.relative_to(_ROOT)
    return relative.as_posix() if relative.parts[0] in _PACKAGES and path != Path(__file__) else None
