"""Bundle times of PyFlink, chosen by the boundedness of the source.

PyFlink passes elements to Python in bundles. A bundle costs some milliseconds, and a row waits for the end of a bundle
in each of two steps: encode, and the anonymizer, which takes blocks. The Java part of Beam reads the results only after
Python has ended the bundle, so the two alternate. Where latency does not matter, a bundle therefore holds several
blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyflink.util.java_utils import is_instance_of

BUNDLE = "python.fn-execution.bundle.time"
BUFFER = "execution.buffer-timeout.interval"

BOUNDED, LIVE = 1000, 10
"""Milliseconds of a bundle of rows, for a bounded source, which is read at full speed, and for an unbounded one."""

BLOCKS = 2
"""Maximum milliseconds of a bundle of blocks for an unbounded source; a bounded one has the time of rows."""

_LIVE_BUFFER = 2
"""Milliseconds that a block may wait in a network buffer, for an unbounded source."""

SEGMENT = "taskmanager.memory.segment-size"
_SEGMENT, _FEW = "256 kb", 4
"""Size of network buffers in a local run of a bounded source, and its maximum parallelism.

A block of 20,000 rows has 1 to 3 MB, and Flink has ten buffers between two tasks. With Flink's default size of 32 kB,
the reading task waits with each block until the previous one has been consumed. An unbounded source has small blocks,
and buffering only delays them. The 64 MB in total suffice for a few tasks of a local run.
"""

_OPERATOR = "org.apache.flink.streaming.api.operators.python.AbstractPythonFunctionOperator"
_BOUNDEDNESS = "org.apache.flink.streaming.api.transformations.WithBoundedness"
SOURCE = "org.apache.flink.streaming.api.transformations.SourceTransformation"
_PHYSICAL = "org.apache.flink.streaming.api.transformations.OneInputTransformation"
_SIMPLE = "org.apache.flink.streaming.api.operators.SimpleOperatorFactory"


def set_pace(environment: Any, operator: Any, above: Sequence[Any]) -> None:
    """Set the settings that a job leaves open; settings of the job or the cluster take precedence.

    Parameters
    ----------
    environment : Java's, in which the Python operators have been configured
    operator : the transformation of the anonymizer
    above : it and all transformations that it reads from
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
    """Return False for a source that may be unbounded."""
    return not is_instance_of(transformation, _BOUNDEDNESS) or str(transformation.getBoundedness()) == "BOUNDED"


def endless(transformation: Any) -> bool:
    """Return True for a source that never ends.

    Sources of Flink's older interface may end without declaring it: a socket, or datagen with a sequence.
    """
    return not ends(transformation) and is_instance_of(transformation, SOURCE)


def _python_operator(transformation: Any) -> Any:
    if not is_instance_of(transformation, _PHYSICAL):
        return None
    factory = transformation.getOperatorFactory()
    operator = factory.getOperator() if is_instance_of(factory, _SIMPLE) else None
    return operator if operator is not None and is_instance_of(operator, _OPERATOR) else None
