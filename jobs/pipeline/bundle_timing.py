"""How long rows wait for others before Python sees them.

PyFlink hands elements to Python in bundles. A bundle costs some milliseconds, and a row waits for its end in each of
two steps: encode, and the anonymizer, which takes blocks. Beam's part in Java looks at what comes of a bundle when
Python has ended it, so they take turns: where nobody waits for a single row, a bundle holds several blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyflink.util.java_utils import is_instance_of

BUNDLE = "python.fn-execution.bundle.time"
BUFFER = "execution.buffer-timeout.interval"

BOUNDED, LIVE = 1000, 10
"""Milliseconds of a bundle of rows where the source ends, which is read at full speed, and where it does not."""

BLOCKS = 2
"""Most milliseconds of a bundle of blocks where the source does not end; elsewhere they are as those of rows."""

_LIVE_BUFFER = 2
"""Milliseconds that a block may wait in a network buffer, where the source does not end."""

SEGMENT = "taskmanager.memory.segment-size"
_SEGMENT, _FEW = "256 kb", 4
"""Of what size network buffers are in a local run where the source ends, and for how many tasks side by side.

A block of 20,000 rows is of 1 to 3 MB, and Flink has ten buffers for what goes from one task to another: with its own,
of 32 kB, the task that reads waits with each block until the one before has been read. Where the source does not end,
blocks are small, and what waits in buffers is late. With 64 MB for all, a local run has enough for a few tasks."""

_OPERATOR = "org.apache.flink.streaming.api.operators.python.AbstractPythonFunctionOperator"
_BOUNDEDNESS = "org.apache.flink.streaming.api.transformations.WithBoundedness"
_SOURCE = "org.apache.flink.streaming.api.transformations.SourceTransformation"
_PHYSICAL = "org.apache.flink.streaming.api.transformations.OneInputTransformation"
_SIMPLE = "org.apache.flink.streaming.api.operators.SimpleOperatorFactory"


def set_pace(environment: Any, operator: Any, above: Sequence[Any]) -> None:
    """Choose what the settings of a job leave open; what is set there, or on the cluster, stays.

    Parameters
    ----------
    environment : Java's, in which Python's operators have been configured
    operator : the transformation of the anonymizer
    above : it and all that it reads from
    """
    settings = environment.getConfiguration().toMap()
    live = not all(map(ends, above))
    given = settings.get(BUNDLE)
    rows = (LIVE if live else BOUNDED) if given is None else int(given)
    for transformation in above:
        python = _python_operator(transformation)
        if python is not None:
            wait = min(rows, BLOCKS) if live and transformation.getId() == operator.getId() else rows
            python.getConfiguration().setString(BUNDLE, str(wait))
    if live and settings.get(BUFFER) is None:
        environment.setBufferTimeout(_LIVE_BUFFER)
    few = environment.getParallelism() <= _FEW
    if not live and few and settings.get("execution.target") == "local" and settings.get(SEGMENT) is None:
        environment.getConfiguration().setString(SEGMENT, _SEGMENT)  # the cluster is made when the job starts


def ends(transformation: Any) -> bool:
    """False for a source that may not end."""
    return not is_instance_of(transformation, _BOUNDEDNESS) or str(transformation.getBoundedness()) == "BOUNDED"


def endless(transformation: Any) -> bool:
    """True for a source that never ends.

    One of Flink's older interface may end though it does not say so: a socket, or datagen with a sequence.
    """
    return not ends(transformation) and is_instance_of(transformation, _SOURCE)


def _python_operator(transformation: Any) -> Any:
    if not is_instance_of(transformation, _PHYSICAL):
        return None
    factory = transformation.getOperatorFactory()
    operator = factory.getOperator() if is_instance_of(factory, _SIMPLE) else None
    return operator if operator is not None and is_instance_of(operator, _OPERATOR) else None
