"""Known causes of job failures: a pattern for each, and the field, cause and remedy to report.

Reports contain only text of this module and values of the configuration. A Java message decides at most which cause is
reported. A message that holds a value of a record, or imitates another error, therefore discloses nothing.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from crenel.jobs.config.flink_settings import CHECKPOINTS, FOLDERS
from crenel.jobs.config.kafka import SERVERS, silent_tables
from crenel.jobs.config.paths import local_path

_TEMPORARY = "io.tmp.dirs"
_TIMEOUT = "execution.checkpointing.timeout"
SETTINGS = (*FOLDERS, _TEMPORARY, _TIMEOUT)
"""Settings of Flink that an explanation may name."""

_LOCAL = ("blackhole", "datagen", "filesystem", "print")
_AT_FIELD = re.compile(r"\AFail to deserialize at field: (.+)\.\Z")
_SHORTEST = 3
"""Minimum length of a path to search a message for: most messages contain "/"."""


@dataclass(frozen=True)
class JobSetup:
    """The client's knowledge of a job, which error messages may contain.

    Attributes
    ----------
    tables : options of the tables that are read and written, by field (``source.ddl``, ``sinks.NAME``)
    settings : of Flink, those in ``SETTINGS``
    columns : of the table ``source``
    databases : fields of the catalogs that are databases
    """

    tables: Mapping[str, Mapping[str, str]]
    settings: Mapping[str, str]
    columns: Sequence[str] = ()
    databases: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        sources: Mapping[str, Mapping[str, str]],
        sinks: Mapping[str, Mapping[str, str]],
        settings: Mapping[str, str],
        columns: Sequence[str] = (),
        databases: Sequence[str] = (),
    ) -> JobSetup:
        """Return the setup of a job; ``sources`` by the field of their statement, ``sinks`` by output."""
        tables = {**sources, **{f"sinks.{name}": options for name, options in sinks.items()}}
        return cls(tables, settings, columns, databases)

    @property
    def sources(self) -> dict[str, Mapping[str, str]]:
        """Options of the tables that are read, by field."""
        return {field: options for field, options in self.tables.items() if not field.startswith("sinks.")}

    @property
    def paths(self) -> dict[str, str]:
        """Paths by the field that names them."""
        tables = {
            field if field in self.sources else f"{field}.path": options["path"]
            for field, options in self.tables.items()
            if options.get("path")
        }
        return tables | {f"flink.{name}": self.settings[name] for name in FOLDERS if self.settings.get(name)}


@dataclass(frozen=True)
class Thrown:
    """One Java exception of a chain of causes.

    Attributes
    ----------
    name : of its class
    message : of any content, including values of records
    frames : its stack trace, without messages; of an exception in text form, its first frame or nothing
    """

    name: str
    message: str
    frames: str = ""


@dataclass(frozen=True)
class Cause:
    """A known cause of a failure.

    Attributes
    ----------
    name : pattern of the whole name of an exception's class
    phrase : the cause, as a phrase
    remedy : as a sentence
    field : the affected fields, with their values; empty where none is known
    message : pattern that must be in the exception's message
    frames : pattern that must be in its stack trace
    """

    name: str
    phrase: str
    remedy: str
    field: Callable[[JobSetup, Sequence[Thrown]], str] = lambda setup, chain: ""
    message: str = ""
    frames: str = ""

    def explains(self, thrown: Thrown) -> bool:
        """Return whether an exception matches this cause."""
        return bool(
            re.fullmatch(self.name, thrown.name)
            and re.search(self.message, thrown.message)
            and re.search(self.frames, thrown.frames)
        )


def path_in(setup: JobSetup, chain: Sequence[Thrown]) -> str:
    """Return the longest configured path that a message contains, with its field; empty without one."""
    plain = {field: re.sub("^file:/*", "/", path).rstrip("/") for field, path in setup.paths.items()}
    for field in sorted(plain, key=lambda field: -len(plain[field])):
        if len(plain[field]) >= _SHORTEST and any(plain[field] in thrown.message for thrown in chain):
            return f"{field}: {setup.paths[field]}"
    return ""


def _sources(setup: JobSetup, _: Sequence[Thrown]) -> str:
    return " or ".join(setup.sources)


def _column(setup: JobSetup, chain: Sequence[Thrown]) -> str:
    named = [found[1] for thrown in chain if (found := _AT_FIELD.search(thrown.message))]
    column = next((name for name in named if name in setup.columns), None)
    return _sources(setup, chain) if column is None else f"source.ddl: column {column}"


def _brokers(setup: JobSetup, _: Sequence[Thrown]) -> str:
    named = {field: options[SERVERS] for field, options in setup.tables.items() if options.get(SERVERS)}
    silent = silent_tables(setup.tables) or named
    return " or ".join(f"{field}: '{SERVERS}' = '{named[field]}'" for field in silent)


def _topics(setup: JobSetup, chain: Sequence[Thrown]) -> str:
    named = {field: options["topic"] for field, options in setup.tables.items() if options.get("topic")}
    reported = [
        field
        for field, topic in named.items()
        if any(re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w-]|\.\w)", thrown.message) for thrown in chain)
    ]
    return " or ".join(f"{field}: 'topic' = '{named[field]}'" for field in reported or named)


def _remote(setup: JobSetup, _: Sequence[Thrown]) -> str:
    tables = (field for field, options in setup.tables.items() if options.get("connector") not in _LOCAL)
    return " or ".join((*tables, *setup.databases))


def _fullest(setup: JobSetup, chain: Sequence[Thrown]) -> str:
    written = {field: path for field, path in setup.paths.items() if field not in setup.sources}
    temporary = setup.settings.get(_TEMPORARY) or tempfile.gettempdir()
    written |= {f"flink.{_TEMPORARY}": path for path in re.split("[,:]", temporary) if path}
    free = {field: left for field, path in written.items() if (left := _free(path)) is not None}
    if not free:
        return path_in(setup, chain)
    field = min(free, key=lambda field: free[field])
    return f"{field}: {written[field]} (its disk has {free[field]:,} bytes free)"


def _checkpoints(setup: JobSetup, _: Sequence[Thrown]) -> str:
    for name in CHECKPOINTS[:2]:
        if folder := setup.settings.get(name):
            left = _free(folder)
            return f"flink.{name}: {folder}" + ("" if left is None else f" (its disk has {left:,} bytes free)")
    return f"flink.{CHECKPOINTS[0]}"


def _timeout(setup: JobSetup, _: Sequence[Thrown]) -> str:
    return f"flink.{_TIMEOUT}: {setup.settings.get(_TIMEOUT, '10 min')}"


def _free(path: str) -> int | None:
    """Return the free bytes on the disk of a path; None where this machine cannot know."""
    folder = local_path(path)
    if folder is None:
        return None
    folder = folder.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


_JACKSON = r".*\.jackson\.core\..*(JsonParseException|JsonEOFException)"
_AS_CSV = (
    "Read each line as 'format' = 'raw', and its fields with source.from_csv, so that such a line is rejected with a "
    "reason"
)
_AS_JSON = (
    "Read each record as 'format' = 'raw', and its fields with source.from_json, so that such a record is rejected "
    "with a reason"
)
_AS_AVRO = (
    "Read each record as 'format' = 'raw' into a column of BYTES, and its fields with source.from_avro, so that such a "
    "record is rejected with a reason"
)
_AS_MESSAGE = _AS_AVRO.replace("from_avro", "from_protobuf")
_AS_TEXT = "Declare the column as STRING and use TRY_CAST in source.query, so that such a row is rejected"
_AS_UTF8 = (
    "Convert the input to UTF-8 (iconv -f ISO-8859-1 -t UTF-8), or read it as 'format' = 'raw' with 'raw.charset', and "
    "its fields with source.from_csv or source.from_json"
)
_NOT_A_TYPE = "a value of the source could not be read as the type of its column"

DISK_FULL = Cause(
    r"java\.io\.(IO|FileNotFound)Exception|java\.nio\.file\.FileSystemException",
    "a disk is full",
    "Free space, or name a folder on another disk",
    _fullest,
    message=r"(No space left on device|Disk quota exceeded)\)?\Z",
)

CAUSES = (
    Cause(
        r".*\bkafka\.common\.errors\.UnknownTopicOrPartitionException",
        "a topic of Kafka is missing",
        "Create the topic, and restart the job from its last checkpoint; a source whose topic was deleted needs a new "
        "job (Start anew, in the guide to stop, restore and upgrade)",
        _topics,
    ),
    Cause(
        r".*\bkafka\.common\.errors\.TimeoutException",
        "Kafka did not answer in time",
        "Start the broker, correct the address, and create the topic if it is missing",
        _brokers,
    ),
    DISK_FULL,
    Cause(
        r"org\.apache\.flink\.util\.FlinkRuntimeException",
        "a checkpoint took longer",
        "Find what holds it in the job's metrics (records of megabytes, a slow sink, too little processor or memory), "
        "or allow it more time",
        _timeout,
        message=r"Exceeded checkpoint tolerable failure threshold.* Checkpoint expired before completing",
    ),
    Cause(
        r"org\.apache\.flink\.util\.FlinkRuntimeException",
        "a checkpoint could not be written",
        "Check that the folder exists, that every TaskManager can write to it, and that its disk is not full; the "
        "log of the JobManager has the reason",
        _checkpoints,
        message="Exceeded checkpoint tolerable failure threshold",
    ),
    Cause(
        r"java\.io\.CharConversionException|java\.nio\.charset\.\w+Exception",
        "the input is not UTF-8",
        _AS_UTF8,
        _sources,
    ),
    Cause(_JACKSON, "the input is not UTF-8", _AS_UTF8, _sources, message=r"\A(\S+: )?Invalid UTF-8 "),
    Cause(
        r".*\.dataformat\.csv\.CsvReadException",
        "a line has more fields than the table has columns",
        _AS_CSV,
        _sources,
        message=r"\A(\S+: )?Too many entries",
    ),
    Cause(
        r"java\.lang\.RuntimeException",
        "a line has fewer fields than the table has columns",
        _AS_CSV,
        _sources,
        message=r"\A(\S+: )?Row length mismatch\. \d+ fields expected but was \d+\.\Z",
        frames=r"\bCsvToRowDataConverters\.",
    ),
    Cause(r".*\.dataformat\.csv\.CsvReadException", "a line is not valid CSV", _AS_CSV, _sources),
    Cause(_JACKSON, "a line is not valid CSV", _AS_CSV, _sources, frames=r"\.dataformat\.csv\."),
    Cause(r".*\.protobuf\.InvalidProtocolBufferException", "a record is no message of Protobuf", _AS_MESSAGE, _sources),
    Cause(
        r"java\.io\.IOException",
        "a record does not fit its schema of Avro",
        _AS_AVRO,
        _sources,
        message=r"\A(\S+: )?Failed to deserialize Avro record\.",
    ),
    Cause(_JACKSON, "a record is not valid JSON", _AS_JSON, _sources, frames=r"\bflink\.formats\.json\."),
    Cause(
        r"java\.io\.IOException|java\.lang\.\w*Exception",
        "a record is no envelope of changes, such as a null",
        _AS_JSON,
        _sources,
        frames=r"\bflink\.formats\.json\.(canal|debezium|maxwell|ogg)\.",
    ),
    Cause(
        r"java\.lang\.(NumberFormat|Arithmetic)Exception|java\.time\.(format\.)?\w+Exception|"
        r".*\.\w*(Csv|Json|Deserializ)\w*Exception",
        _NOT_A_TYPE,
        _AS_TEXT,
        _column,
    ),
    Cause(
        r"java\.(lang\.Runtime|io\.IO)Exception",
        _NOT_A_TYPE,
        _AS_TEXT,
        _column,
        message=r"\A(\S+: )?Fail(ed)? to deserialize ",
    ),
    Cause(
        r"java\.io\.FileNotFoundException|java\.nio\.file\.(NoSuchFile|AccessDenied)Exception",
        "a file or folder is missing, or must not be used by the user who runs Flink",
        "Create it, correct the path, or grant the rights",
        path_in,
    ),
    Cause(
        r"java\.net\.(ConnectException|UnknownHostException)",
        "a host cannot be reached",
        "Check that it runs, and that its address and port are right",
        _remote,
    ),
    Cause(
        r".*\.NoResourceAvailableException",
        "the cluster has too few free slots",
        "Add TaskManagers or slots, end other jobs, or lower flink.parallelism.default",
    ),
    Cause(
        r".*\.JobCancellationException",
        "the job was canceled",
        "Start it again from its last checkpoint or savepoint",
    ),
)
"""Known causes, the first match of the innermost matching exception counts."""
