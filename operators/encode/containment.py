"""Encoder that survives defective records.

A record on which it raises is rejected, and all others are encoded as usual.
"""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.regions.loads import Loads
from crenel.operators.encode.columns import Batch, UnreadableError
from crenel.operators.encode.encoder import Encoder
from crenel.operators.encode.records import RecordArguments
from crenel.operators.encode.schema_registry import UnavailableError
from crenel.operators.plan import AnonymizationPlan

_ROOT = Path(__file__).parents[2]
_log = logging.getLogger(__name__)


class ContainedEncoder:
    """An ``Encoder`` that rejects records on which it raises.

    The readers and the encoder raise for no record that is known to us. If one raises anyway, the batch is halved until
    the record is alone, and then rejected as ``unreadable``. Each worker logs the exception's class and location once,
    so that the defect becomes known. The exception's text is not logged, because it may contain values of the record.

    Parameters
    ----------
    plan, number : as for ``Encoder``
    records : arguments of encode that are read from records; None: none is
    """

    def __init__(self, plan: AnonymizationPlan, records: RecordArguments | None = None, number: int = 0) -> None:
        self._encoder = Encoder(plan, number)
        self._records = records
        self._reported: set[tuple[str, str]] = set()

    @property
    def loads(self) -> Loads | None:
        """Load of the shards, as ``Encoder.loads``."""
        return self._encoder.loads

    def encode(self, *series: Any) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
        """Return the blocks of one batch, as ``Encoder.encode`` does.

        Parameters
        ----------
        series : arguments of the function: the records first, where there are any, then the others
        """
        return self._encode(series, Batch(series).rows)

    def _encode(self, series: tuple[Any, ...], rows: int) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
        try:
            return self._encoder.encode(*(series if self._records is None else self._records.read(*series)))
        except (MemoryError, UnavailableError):  # not caused by a record
            raise
        except Exception as error:
            if rows <= 1:
                return self._refuse(series, error)
        half = rows // 2
        parts = [self._encode(_slice(series, *ends), ends[1] - ends[0]) for ends in ((0, half), (half, rows))]
        keys, blocks = zip(*parts, strict=True)
        return np.concatenate(keys), np.concatenate(blocks)

    def _refuse(self, series: tuple[Any, ...], error: Exception) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
        argument = None
        if isinstance(error, UnreadableError):
            argument, error = error.argument, error.error
        self._report(error)
        return self._encoder.refuse(series if self._records is None else self._records.readable(*series), argument)

    def _report(self, error: Exception) -> None:
        place = _place(error)
        if (type(error).__name__, place) not in self._reported:
            self._reported.add((type(error).__name__, place))
            _log.error(
                "A record is rejected as unreadable, because it raises %s at %s. The job goes on. This is a defect of "
                "Crenel: report this line, which holds no value of the record. Further records with this error are "
                "counted by the metric rejected_unreadable.",
                type(error).__name__,
                place,
            )


def _slice(series: tuple[Any, ...], start: int, stop: int) -> tuple[Any, ...]:
    """Return the arguments of some rows; a constant stays unchanged."""
    return tuple(
        column.iloc[start:stop]
        if isinstance(column, pd.Series)
        else column.slice(start, stop - start)
        if isinstance(column, pa.Array)
        else column
        for column in series
    )


def _place(error: Exception) -> str:
    """Return the innermost Crenel line in a traceback."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_ROOT) and "site-packages" not in path.relative_to(_ROOT).parts:
            return f"{path.relative_to(_ROOT)}:{frame.lineno}"
    return "an unknown line"
