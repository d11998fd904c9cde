"""Why Flink refused or ended a job, in one sentence that holds nothing of a record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

# Messages of these speak of files, hosts, statements and options, or are our own; those of any others may hold a
# record: the CSV format, for one, quotes the row that it cannot read.
_ABOUT_THE_JOB = {
    "java.io.FileNotFoundException",
    "java.net.BindException",
    "java.net.ConnectException",
    "java.net.UnknownHostException",
    "java.nio.file.AccessDeniedException",
    "java.nio.file.NoSuchFileException",
    "org.apache.flink.runtime.client.JobCancellationException",
    "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException",
    "anonymity.errors.PolicyError",
    "state.codec.StateError",
}
_ABOUT_A_VALUE = re.compile(
    r"Csv|Json|Deserializ|NumberFormat|DateTime|Arithmetic|Failed to (de)?serialize|Invalid input string"
)
_CAUSE = re.compile(r"^(?:Caused by: )?(?P<name>(?:[\w$]+\.)+[\w$]+)(?:: (?P<message>.*))?$", re.DOTALL)
_IN_PYTHON = re.compile(r"Traceback \(most recent call last\):\n.*", re.DOTALL)
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_RAISED = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_OURS = re.compile(r"(?:^|/)((?:jobs|operators|anonymity|state)(?:/\w+)+\.py)$")


def why_refused(error: BaseException, places: Mapping[str, str] | None = None) -> str:
    """Why a job did not start: the message of the last cause. No record has been read by then.

    ``places``: paths by the fields that name them; the one that the message speaks of is told with its field.
    """
    causes = list(_causes(error))
    for name, message in reversed(causes):
        if message:
            return f"{_short(name)}{_place([(name, message)], places or {})}: {_first_lines(message)}"
    return _short(causes[-1][0]) if causes else f"{type(error).__name__}: {_first_lines(str(error))}"


def why_failed(error: BaseException | str, places: Mapping[str, str] | None = None) -> str:
    """Why a running job ended: the innermost cause that can be told, without any message that may hold a record.

    ``error`` may be the stack trace of one that Java has thrown. ``places``: paths by the fields that name
    them; where a message is withheld, the one that it speaks of is told.
    """
    causes = list(_causes(error))
    for name, message in reversed(causes):
        if python := _IN_PYTHON.search(message):
            return _in_python(python[0])
        if name in _ABOUT_THE_JOB:
            return f"{_short(name)}: {_first_lines(message)}"
    for name, message in reversed(causes):
        if _ABOUT_A_VALUE.search(f"{name} {message}"):
            return (
                f"a value of the source could not be read as the type of its column ({_short(name)}). Declare the "
                "column as STRING and use TRY_CAST in source.query, so that such a row is rejected"
            )
    last = _short(causes[-1][0]) if causes else "an error" if isinstance(error, str) else type(error).__name__
    return f"{last}{_place(causes, places or {})}; its message is withheld, because it may hold values of a record"


def _place(causes: Sequence[tuple[str, str]], places: Mapping[str, str]) -> str:
    """The longest path that a message has, with its field."""
    plain = {field: re.sub("^file:/*", "/", path).rstrip("/") for field, path in places.items()}
    for field in sorted(places, key=lambda field: -len(plain[field])):
        if any(plain[field] in message for _, message in causes):
            return f" at {field}: {places[field]}"
    return ""


def _causes(error: BaseException | str) -> Iterator[tuple[str, str]]:
    """Class and message of each cause of a Java error, the outermost first, read from its stack trace."""
    text = getattr(error, "stack_trace", None) or str(error)
    # py4j begins with a line of its own.
    text = re.sub(r"\AAn error occurred while calling [^\n]*\n: ", "", text)
    for part in re.split(r"^(?=Caused by: )", text, flags=re.MULTILINE):
        lines = re.split(r"^\t(?:at |\.\.\. |Suppressed: )", part, maxsplit=1, flags=re.MULTILINE)[0].strip()
        if found := _CAUSE.match(lines):
            yield found["name"], found["message"] or ""


def _in_python(trace: str) -> str:
    """What was raised in a worker: its message where it is our own, else where it was raised."""
    frames = list(_FRAME.finditer(trace))
    # What is raised stands on the first line after the last frame that is not indented; its message may have more.
    after = trace[frames[-1].end() :] if frames else ""
    raised = next((found for line in after.splitlines()[1:] if (found := _RAISED.match(line))), None)
    name, message = (raised["name"], raised["message"] or "") if raised else ("an error", "")
    ours = [(_OURS.search(frame["file"]), frame["line"]) for frame in frames]
    where = next((f"{found[1]}, line {line}" for found, line in reversed(ours) if found), "a Python worker")
    # What our own code raises names no value; the same class raised by a library might.
    if message and (name in _ABOUT_THE_JOB or (name == "RuntimeError" and ours[-1][0])):
        return message
    return f"{name} in {where}; its message is withheld, because it may hold values of a record"


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]


def _first_lines(message: str, most: int = 12) -> str:
    lines = [line.rstrip() for line in message.strip().splitlines() if line.strip()]
    return "\n".join(lines[:most])
