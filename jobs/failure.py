"""Explanations of why Flink refused or ended a job, in one sentence without values of records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crenel.anonymity.model.errors import PolicyError
from crenel.jobs.causes import CAUSES, Cause, JobSetup, Thrown, path_in, remedy
from crenel.jobs.config.connectors import NAMING
from crenel.jobs.config.source import parse_options, parse_texts
from crenel.operators.signed_errors import signed_error

if TYPE_CHECKING:
    from crenel.jobs.config.load import Config

_SERIALIZED = "org.apache.flink.util.SerializedThrowable"
_ENDED = "org.apache.flink.util.FlinkExpectedException"
_LONGEST = 100
"""Maximum number of exceptions of a chain to read, because causes may form a cycle."""

_DEEPEST = 40
"""Maximum number of frames of an exception to read, because each costs a call into Java."""

_IN_PYTHON = "Traceback (most recent call last):"
_CAUSE = re.compile(r"^(?:Caused by: )?(?P<name>(?:[\w$]+\.)+[\w$]+)(?:: (?P<message>.*))?$", re.DOTALL)

_FAILED = re.compile(r" switched from \w+ to FAILED with failure cause:\n((?:(?!\d{4}-\d\d-\d\d ).*\n)+)")

_TABLE = re.compile(r"Unable to create a s\w+ for \w+ table '\S+\.(source|forget|crenel_sink_\w+)'")
"""Matches the name of a table of a job that Flink cannot create."""

_STATEMENTS = {"source": "source.ddl", "forget": "source.forget.ddl"}
"""Fields of the statements that create tables, by the name of the table."""

_MASK = "******"
_NAMES_A_SECRET = re.compile(r"passw|pwd|secret|token|credential|auth|jaas|api-?key|access-?key|account\.key", re.I)
"""Matches the names of options and settings whose values a message never shows."""

_MEASURE = re.compile(r"true|false|[\d.:-]+ ?[a-z]{0,12}", re.I)
"""Matches values that a message shows: a switch, a number, a duration or a size."""

_SHORTEST = 4
"""Minimum length of a value to search a message for, because most messages contain shorter ones by chance."""

_USER = re.compile(r"(?<=://)[^/\s]\S*@")
"""Matches user and password of a URL, up to the last ``@``: a password may hold any character but white space."""

_PARAMETER = re.compile(rf"(?P<name>[?&;][^=&;\s]*(?:{_NAMES_A_SECRET.pattern})[^=&;\s]*=)[^&;\s]*", re.I)
"""Matches a parameter of a URL that is named as a secret."""

_LITERAL = re.compile(r"_UTF-16LE'(?:[^']|'')*'")
"""Matches a text of a statement as Flink writes it in a plan."""


def without_passwords(text: str) -> str:
    """Mask user and password of each URL in a text, and its parameters that are named as secrets."""
    return _PARAMETER.sub(rf"\g<name>{_MASK}", _USER.sub(f"{_MASK}@", text))


def why_refused(error: BaseException, config: Config | None = None) -> str:
    """Return the reason why a job did not start: the message of the last cause. Flink has read no record by then.

    The message quotes options of tables and parts of the query. Values of options that may be secret, texts of the
    query and passwords within URLs are replaced by ``******``.

    Parameters
    ----------
    error : error that py4j raised
    config : of the job; names the field of a path that the message contains. None: the message is about a statement
        without variables
    """
    text = str(getattr(error, "stack_trace", None) or error)
    chain = list(_of_text(text))
    withheld = () if config is None else _withheld(config)
    thrown = next((thrown for thrown in reversed(chain) if thrown.message), None)
    if thrown is None:
        return _short(chain[-1].name) if chain else f"{type(error).__name__}: {_first_lines(_masked(text, withheld))}"
    place = "" if config is None else path_in(JobSetup({}, config.sinks, config.flink), [thrown])
    if not place and (table := _TABLE.search(text)):
        place = _STATEMENTS.get(table[1]) or table[1].replace("crenel_sink_", "sinks.")
    at = f" at {place}" if place else ""
    first, *rest = _first_lines(_masked(thrown.message, withheld)).split("\n")
    known = remedy(text)
    first = f"{first.removesuffix('.')}; {known}" if known else first
    return "\n".join([f"{_short(thrown.name)}{at}: {first}", *rest])


def _withheld(config: Config) -> Iterator[str]:
    """Yield the values of a configuration that a message must not show."""
    for key in (config.subject_key, config.audit_chain):
        with suppress(PolicyError):  # the source of the key is no longer readable
            yield "" if key is None else key.read().decode(errors="replace")
    yield from (value for name, value in config.flink.items() if _NAMES_A_SECRET.search(name))
    source = config.source
    for options in (*map(parse_options, source.statements.values()), *config.catalogs.values(), *config.sinks.values()):
        for name, value in options.items():
            is_harmless = f".{name}".endswith(NAMING) or _MEASURE.fullmatch(value)
            if _NAMES_A_SECRET.search(name) or not is_harmless:
                yield value
    forget_query = None if source.forget is None else source.forget.query
    for field, query in (("source.query", source.query), ("source.forget.query", forget_query)):
        if query is not None and field in source.varied:
            yield from parse_texts(query)


def _masked(message: str, withheld: Iterable[str]) -> str:
    """Mask possible secrets in a message of Flink; ``withheld``: values of the configuration."""
    for value in sorted(withheld, key=len, reverse=True):  # a value may be part of another
        if len(value) >= _SHORTEST:
            # Flink doubles quotes where it lists options.
            message = message.replace(value, _MASK).replace(value.replace("'", "''"), _MASK)
    return without_passwords(_LITERAL.sub(f"'{_MASK}'", message))


def why_failed(
    error: BaseException | str, setup: JobSetup | None = None, name: str = "", *, logs: Path | None = None
) -> str:
    """Return the reason why a running job ended: field, cause and remedy, without any message that may hold a record.

    The result contains text of ours, values of the configuration, class names, and signed errors of a worker
    (``crenel.operators.signed_errors``). Java messages are never shown, whatever their class: a message may quote a
    record, and hold lines that look like causes or frames. Class names come from exception objects. Class names in an
    error's text only select the cause, and are not shown.

    Parameters
    ----------
    error : error that py4j raised, or a stack trace as text
    setup : of the job; None: neither fields nor remedies are reported
    name : class name of an error in text form
    logs : folder of Flink's logs. A task whose operators cannot be closed ends its TaskManager, and then only the logs
        tell the cause
    """
    found = _objects(error)
    text = error if isinstance(error, str) else str(getattr(error, "stack_trace", None) or "")
    if logs is not None and any(thrown.name == _ENDED for thrown in found) and (failure := last_failure(logs)):
        found, text = [], failure
    report = signed_error("\n".join(thrown.message for thrown in found) or text)
    if report is not None:
        return report
    chain = found or list(_of_text(text))
    for thrown in reversed(chain):
        cause = next((cause for cause in CAUSES if cause.explains(thrown)), None)
        if cause is not None:
            return _explained(cause, _short(thrown.name) if found else "", setup, chain)
    if found:
        name = found[-1].name
    elif not isinstance(error, str):
        name = type(error).__name__
    last = _short(name) if re.fullmatch(r"[\w.$]+", name) else "an error"
    worker = " in a Python worker" if any(_IN_PYTHON in thrown.message for thrown in chain) else ""
    place = path_in(setup, chain) if setup is not None else ""
    at = f" at {place}" if place else ""
    return f"{last}{worker}{at}; its message is withheld, because it may hold values of a record"


def last_failure(logs: Path) -> str:
    """Return the stack trace of the last task that failed by itself, from the logs in a folder; empty without one."""
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in sorted(logs.glob("*.log")))
    failures = [match[1] for text in texts for match in _FAILED.finditer(text) if _ENDED not in match[1]]
    return failures[-1] if failures else ""


def _explained(cause: Cause, name: str, setup: JobSetup | None, chain: Sequence[Thrown]) -> str:
    """Return field, cause and remedy; ``name`` of the exception's class, empty where it is uncertain."""
    explanation = f"{cause.phrase} ({name})" if name else cause.phrase
    if setup is None:
        return explanation
    field = cause.field(setup, chain)
    return f"{field}{': ' if field else ''}{explanation}. {cause.remedy}"


def _objects(error: object) -> list[Thrown]:
    """Return the exceptions that Java threw, outermost first; empty if there are none, or if Java has ended."""
    chain: list[Thrown] = []
    try:
        thrown: Any = getattr(error, "java_exception", None)
        while thrown is not None and len(chain) < _LONGEST:
            name = str(thrown.getClass().getName())
            if name == _SERIALIZED:  # of a class that the client does not have
                name = str(thrown.getOriginalErrorClassName())
            frames = "\n".join(frame.toString() for frame in list(thrown.getStackTrace())[:_DEEPEST])
            chain.append(Thrown(name, str(thrown.getMessage() or ""), frames))
            thrown = thrown.getCause()
    except Exception:  # of py4j, which raises many kinds where Java ends
        return chain
    return chain


def _of_text(text: str) -> Iterator[Thrown]:
    """Yield apparent exceptions in a stack trace, outermost first; any of them may be part of a message."""
    # py4j begins with a line of its own.
    text = re.sub(r"\AAn error occurred while calling [^\n]*\n: ", "", text)
    for part in re.split(r"^(?=Caused by: )", text, flags=re.MULTILINE):
        head, *frames = re.split(r"^\t(?:at |\.\.\. |Suppressed: )", part, maxsplit=1, flags=re.MULTILINE)
        if found := _CAUSE.match(head.strip()):
            yield Thrown(found["name"], found["message"] or "", "".join(frames).partition("\n")[0])


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]


def _first_lines(message: str, most: int = 12) -> str:
    lines = [line.rstrip() for line in message.strip().splitlines() if line.strip()]
    return "\n".join(lines[:most])
