"""Known causes of job failures: a pattern for each, and the field, cause and remedy to report.

Reports contain only text of this module and values of the configuration. A Java message decides at most which cause is
reported. A message that holds a value of a record, or imitates another error, therefore discloses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from crenel.jobs.config.connectors import JARS, LOCAL, SERVERS, TIMEOUT, Options
from crenel.jobs.config.flink_settings import CHECKPOINTS, FOLDERS
from crenel.jobs.formats.builtin import FORMATS
from crenel.jobs.formats.record_format import JACKSON

_TEMPORARY = "io.tmp.dirs"
_TIMEOUT = "execution.checkpointing.timeout"
SETTINGS = (*FOLDERS, _TIMEOUT)
"""Settings of Flink that an explanation may name."""

_AT_FIELD = re.compile(r"\AFail to deserialize at field: (.+)\.\Z")
_SHORTEST = 3
"""Minimum length of a path to search a message for: most messages contain "/"."""


@dataclass(frozen=True)
class JobSetup:
    """The client's knowledge of a job, which error messages may contain.

    Attributes
    ----------
    sources : options of the tables that are read, by the field of their statement
    sinks : options of the tables that are written, by output
    settings : of Flink, those in ``SETTINGS``
    columns : of the table ``source``
    databases : fields of the catalogs that are databases
    """

    sources: Mapping[str, Options]
    sinks: Mapping[str, Options]
    settings: Mapping[str, str]
    columns: Sequence[str] = ()
    databases: Sequence[str] = ()

    @property
    def tables(self) -> dict[str, Options]:
        """Options of all tables by field, such as ``source.ddl`` and ``sinks.audit``."""
        return {**self.sources, **{f"sinks.{name}": options for name, options in self.sinks.items()}}

    @property
    def written(self) -> dict[str, str]:
        """Paths to which the job writes, by field."""
        sinks = {f"sinks.{name}.path": options["path"] for name, options in self.sinks.items() if options.get("path")}
        return sinks | {f"flink.{name}": self.settings[name] for name in FOLDERS if self.settings.get(name)}

    @property
    def paths(self) -> dict[str, str]:
        """Paths by the field that names them."""
        return {field: of["path"] for field, of in self.sources.items() if of.get("path")} | self.written


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
    phrase : the cause, as a phrase
    remedy : as a sentence
    field : the affected fields, with their values; empty where none is known
    patterns : of an exception's class, message and stack trace, from the beginning of ``CLASS: MESSAGE``; the trace
        follows on a line of its own
    """

    phrase: str
    remedy: str
    field: Callable[[JobSetup, Sequence[Thrown]], str]
    patterns: tuple[str, ...]

    def explains(self, thrown: Thrown) -> bool:
        """Return whether an exception matches this cause."""
        text = f"{thrown.name}: {thrown.message}\n{thrown.frames}"
        return any(re.match(pattern, text, re.DOTALL) for pattern in self.patterns)


def path_in(setup: JobSetup, chain: Sequence[Thrown]) -> str:
    """Return the longest configured path that a message contains, with its field; empty without one."""
    plain = {field: re.sub("^file:/*", "/", path).rstrip("/") for field, path in setup.paths.items()}
    for field in sorted(plain, key=lambda field: -len(plain[field])):
        if len(plain[field]) >= _SHORTEST and any(plain[field] in thrown.message for thrown in chain):
            return f"{field}: {setup.paths[field]}"
    return ""


def _unknown(setup: JobSetup, chain: Sequence[Thrown]) -> str:
    return ""


def _sources(setup: JobSetup, _: Sequence[Thrown]) -> str:
    return " or ".join(setup.sources)


def _column(setup: JobSetup, chain: Sequence[Thrown]) -> str:
    named = [found[1] for thrown in chain if (found := _AT_FIELD.search(thrown.message))]
    column = next((name for name in named if name in setup.columns), None)
    return _sources(setup, chain) if column is None else f"source.ddl: column {column}"


def _option(name: str) -> Callable[[JobSetup, Sequence[Thrown]], str]:
    """Return a function that names the tables with an option, and only those whose value is in a message if any is."""

    def field(setup: JobSetup, chain: Sequence[Thrown]) -> str:
        named = {field: options[name] for field, options in setup.tables.items() if options.get(name)}
        reported = [
            field
            for field, value in named.items()
            if any(re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-]|\.\w)", thrown.message) for thrown in chain)
        ]
        return " or ".join(f"{field}: '{name}' = '{named[field]}'" for field in reported or named)

    return field


def _remote(setup: JobSetup, _: Sequence[Thrown]) -> str:
    tables = (field for field, options in setup.tables.items() if options.get("connector") not in LOCAL)
    return " or ".join((*tables, *setup.databases))


def _disks(setup: JobSetup, chain: Sequence[Thrown]) -> str:
    return path_in(setup, chain) or " or ".join((*setup.written, f"flink.{_TEMPORARY}"))


def _setting(*names: str) -> Callable[[JobSetup, Sequence[Thrown]], str]:
    """Return a function that names the first of these settings of Flink that is set, with its value."""

    def field(setup: JobSetup, _: Sequence[Thrown]) -> str:
        given = (f"flink.{name}: {setup.settings[name]}" for name in names if setup.settings.get(name))
        return next(given, f"flink.{names[0]}")

    return field


_START = r"(\S+: )?"  # of a message, which may begin with the name of a class
_READERS = [f"source.from_{kind.name}" for kind in FORMATS if kind.content == "text"]
_CHECKPOINT = (
    rf"org\.apache\.flink\.util\.FlinkRuntimeException: {_START}Exceeded checkpoint tolerable failure threshold"
)
_NO_TYPE = "Unsupported to derive Schema for type: "
_AS_TIMESTAMP = "CAST it to TIMESTAMP(3) in source.query, and an event time to BIGINT of epoch milliseconds"

CAUSES = (
    Cause(
        "a topic of Kafka is missing",
        "Create the topic, and restart the job from its last checkpoint; a source whose topic was deleted needs a new "
        "job (Start anew, in the guide to stop, restore and upgrade)",
        _option("topic"),
        (r"[\w.$]*\bkafka\.common\.errors\.UnknownTopicOrPartitionException: ",),
    ),
    Cause(
        "Kafka did not answer in time",
        "Start the broker, correct the address, and create the topic if it is missing",
        _option(SERVERS),
        (r"[\w.$]*\bkafka\.common\.errors\.TimeoutException: ",),
    ),
    Cause(
        "the timeout of transactions is longer than the brokers allow",
        "Raise transaction.max.timeout.ms of the brokers, or lower the timeout to it",
        _option(TIMEOUT),
        (
            r"[\w.$]*\bkafka\.common\.errors\.InvalidTxnTimeoutException: ",
            r"[\w.$]*\bkafka\.common\.KafkaException: Unexpected error in InitProducerIdResponse; "
            r"The transaction timeout is larger than the maximum value allowed by the broker",
        ),
    ),
    Cause(
        "a disk is full",
        "Free space, or name a folder on another disk",
        _disks,
        (r"java\.(io|nio\.file)\.\w+Exception: .*(No space left on device|Disk quota exceeded)\)?\n",),
    ),
    Cause(
        "a checkpoint took longer",
        "Find what holds it in the job's metrics (records of megabytes, a slow sink, too little processor or memory), "
        "or allow it more time",
        _setting(_TIMEOUT),
        (rf"{_CHECKPOINT}.* Checkpoint expired before completing",),
    ),
    Cause(
        "a checkpoint could not be written",
        "Check that the folder exists, that every TaskManager can write to it, and that its disk is not full; the "
        "log of the JobManager has the reason",
        _setting(*CHECKPOINTS[:2]),
        (_CHECKPOINT,),
    ),
    Cause(
        "the input is not UTF-8",
        "Convert the input to UTF-8 (iconv -f ISO-8859-1 -t UTF-8), or read it as 'format' = 'raw' with 'raw.charset', "
        f"and its fields with {' or '.join(sorted(_READERS))}",
        _sources,
        (r"java\.(io\.CharConversion|nio\.charset\.\w+)Exception: ", rf"{JACKSON}{_START}Invalid UTF-8 "),
    ),
    *(
        Cause(phrase, kind.advice()[0].upper() + kind.advice()[1:], _sources, patterns)
        for kind in FORMATS
        for phrase, patterns in kind.failures.items()
    ),
    Cause(
        "a value of the source could not be read as the type of its column",
        "Declare the column as STRING and use TRY_CAST in source.query, so that such a row is rejected",
        _column,
        (
            r"java\.(lang\.(NumberFormat|Arithmetic)|time\.(format\.)?\w+)Exception: ",
            r"[\w.$]*\.[\w$]*(Csv|Json|Deserializ)[\w$]*Exception: ",
            rf"java\.(lang\.Runtime|io\.IO)Exception: {_START}Fail(ed)? to deserialize ",
        ),
    ),
    Cause(
        "a record has no event time, which the column of the watermark needs",
        "Let that column be 1970 where the time is missing, and name the field in policy.event_time, so that the "
        "record is rejected (docs/how-to/bad-records.md#records-without-a-readable-time)",
        _sources,
        (rf"java\.lang\.RuntimeException: {_START}RowTime field should not be null",),
    ),
    Cause(
        "the format of a sink has no type of a column, such as TIMESTAMP_LTZ",
        _AS_TIMESTAMP,
        lambda setup, _: " or ".join(f"sinks.{name}" for name, of in setup.sinks.items() if of.get("format") == "avro"),
        (rf"java\.lang\.UnsupportedOperationException: {_START}{_NO_TYPE}",),
    ),
    Cause(
        "a file or folder is missing, or must not be used by the user who runs Flink",
        "Create it, correct the path, or grant the rights",
        path_in,
        (r"java\.(io\.FileNotFound|nio\.file\.(NoSuchFile|AccessDenied))Exception: ",),
    ),
    Cause(
        "a host cannot be reached",
        "Check that it runs, and that its address and port are right",
        _remote,
        (r"java\.net\.(Connect|UnknownHost)Exception: ",),
    ),
    Cause(
        "the cluster has too few free slots",
        "Add TaskManagers or slots, end other jobs, or lower flink.parallelism.default",
        _unknown,
        (r"[\w.$]*\.NoResourceAvailableException: ",),
    ),
    Cause(
        "a Python worker ended",
        "Flink starts it again with the job. If that recurs, the system may have killed it for its memory: look for "
        "the kernel's message (dmesg), and give the TaskManager's machine more, or let fewer records wait",
        _unknown,
        (
            r"[\w.$]*\.grpc\.StatusRuntimeException: CANCELLED: (call already|client) cancelled",
            rf"java\.lang\.IllegalStateException: {_START}(Process died with exit code|FnApiControlClient closed)",
        ),
    ),
    Cause(
        "the job was canceled",
        "Start it again from its last checkpoint or savepoint",
        _unknown,
        (r"[\w.$]*\.JobCancellationException: ",),
    ),
)
"""Known causes, the first match of the innermost matching exception counts."""

_NO_FACTORY = re.compile(r"Could not find any (?:format )?factory for identifier '([^']+)'")
_REMEDIES = {
    r"(?:NoClassDefFoundError|ClassNotFoundException): org[./]apache[./]hadoop[./]": "Flink has no Hadoop client, "
    "which the catalog needs, or the format parquet. Name the files of hadoop-client-api and hadoop-client-runtime in "
    "flink.pipeline.jars; for Iceberg, list them in the environment variable HADOOP_CLASSPATH of every Flink process "
    "and of the client (docs/how-to/lakehouse.md)",
    r"get \S+ descriptors error!|NoClassDefFoundError: com[./]google[./]protobuf[./]": "name the jar of the compiled "
    "message in flink.pipeline.jars; if its class is of another copy of Protobuf than Flink's format, rename "
    "com.google.protobuf so in the generated Java (docs/how-to/bad-records.md#protobuf)",
    r"No suitable driver|Could not find any jdbc factory": "name the files of the connector and of the driver for the "
    "database of base-url in flink.pipeline.jars (docs/how-to/lakehouse.md#join-a-table-of-a-database)",
    r"SQL\w*Exception(?s:.*)java\.net\.\w+Exception": "start the database, or correct the host and port in base-url",
    r"\bP?SQL\w*Exception": "correct base-url, default-database, username or password, or grant the rights",
    _NO_TYPE: f"{_AS_TIMESTAMP}; of Kafka with avro, set avro.timestamp_mapping.legacy to false instead",
}
"""Remedy by a pattern of the stack trace of a job that Flink refuses; the first match counts."""


def remedy(trace: str) -> str:
    """Return what to do about a refusal of Flink, from its stack trace; empty where that is not known."""
    if missing := _NO_FACTORY.search(trace):
        jar = JARS.get(missing[1])
        what = "correct the name, or name the jar that has it" if jar is None else f"name the file of {jar}"
        return f"{what} in flink.pipeline.jars (docs/how-to/deploy.md)"
    return next((known for pattern, known in _REMEDIES.items() if re.search(pattern, trace)), "")
