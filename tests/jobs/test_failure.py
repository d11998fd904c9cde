"""Causes of a failed job: field, cause and remedy, and nothing of a record, for any message."""

from __future__ import annotations

import base64
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.model.errors import InvariantError, PolicyError
from crenel.anonymity.model.secret import NO_KEY, EnvironmentKey, Secret, SubjectKey
from crenel.jobs.causes import CAUSES, JobSetup
from crenel.jobs.config.source import Source
from crenel.jobs.failure import why_failed, why_refused, without_passwords
from crenel.operators import signed_errors
from crenel.operators.signed_errors import ErrorSigner
from crenel.state.codec import StateError, add_kind

SECRETS = ("Eastley", "4711")
AT = "\n\tat x.Y.z(Y.java:1)\n"
SETUP = JobSetup(
    {"source.ddl": {"connector": "filesystem", "path": "/data/in.csv", "format": "csv"}},
    {
        "released": {"connector": "filesystem", "path": "/data/out", "format": "csv"},
        "audit": {"connector": "filesystem", "path": "file:///data/out/audit/", "format": "csv"},
        "rejected": {"connector": "filesystem", "path": "/data/out/audits", "format": "csv"},
    },
    {},
    ["wage"],
)
WITHHELD = "its message is withheld, because it may hold values of a record"

Link = tuple[str, str, str]
"""Class, message and first frame of a Java exception."""


def java(chain: Sequence[Link], serialized: bool = False) -> Any:
    """Return py4j's text of a chain of Java exceptions, as they are or as Flink's ``SerializedThrowable``."""
    (name, message, frame), *rest = chain
    shown = "org.apache.flink.util.SerializedThrowable" if serialized else name
    return SimpleNamespace(
        getClass=lambda: SimpleNamespace(getName=lambda: shown),
        getOriginalErrorClassName=lambda: name,
        getMessage=lambda: f"{name}: {message}" if serialized else message,
        getStackTrace=lambda: [SimpleNamespace(toString=lambda: frame)],
        getCause=lambda: java(rest, serialized) if rest else None,
    )


class FailedError(Exception):
    """Error as py4j raises it; its text is Java's output."""

    def __init__(self, *chain: Link, serialized: bool = False) -> None:
        self.java_exception = java(chain, serialized)
        super().__init__(trace(*chain))


def trace(*chain: Link) -> str:
    """Return a stack trace as Java prints it."""
    return "Caused by: ".join(f"{n}: {m}\n\tat {f}\n\t... 5 more\n" for n, m, f in chain)


def link(name: str, message: str, frame: str = "x.Y.z(Y.java:1)") -> Link:
    return name, message, frame


OUTER = link("java.util.concurrent.ExecutionException", "Job execution failed.")


def both(*chain: Link) -> tuple[str, str]:
    """Return the messages for a chain of exceptions, and for the same chain as text."""
    return why_failed(FailedError(OUTER, *chain), SETUP), why_failed(trace(OUTER, *chain), SETUP, OUTER[0])


def test_a_missing_file_is_told_by_the_field_that_names_it() -> None:
    answer, by_text = both(link("java.io.FileNotFoundException", "File /data/in.csv of Eastley does not exist"))
    missing = "a file or folder is missing, or must not be used by the user who runs Flink"
    assert answer == (
        f"source.ddl: /data/in.csv: {missing} (FileNotFoundException). Create it, correct the path, or grant the rights"
    )
    assert by_text == answer.replace(" (FileNotFoundException)", "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("java.io.IOException", "Failed to deserialize CSV row '1,Eastley'."),
        ("java.lang.NumberFormatException", 'For input string: "Eastley"'),
        ("java.time.format.DateTimeParseException", "Text 'Eastley' could not be parsed"),
    ],
)
def test_a_value_that_cannot_be_read_is_not_shown_but_its_column_is(name: str, message: str) -> None:
    converter = "org.apache.flink.formats.csv.CsvToRowDataConverters.x(X.java:1)"
    field = link("java.lang.RuntimeException", "Fail to deserialize at field: wage.", converter)
    for answer in both(field, link(name, message)):
        assert answer.startswith(
            "source.ddl: column wage: a value of the source could not be read as the type of its co"
        )
        assert answer.endswith(
            "Declare the column as STRING and use TRY_CAST in source.query, so that such a row is rejected"
        )
    for answer in both(link(field[0], "Fail to deserialize at field: Eastley.", converter), link(name, message)):
        assert answer.startswith("source.ddl: a value of the source")


def test_a_record_that_is_no_envelope_of_changes_is_named() -> None:
    frame = "org.apache.flink.formats.json.debezium.DebeziumJsonDeserializationSchema.deserialize(X.java:1)"
    for thrown in (
        link("java.io.IOException", "Corrupt Debezium JSON message 'Eastley'.", frame),
        link("java.lang.NullPointerException", "Eastley", frame),
    ):
        for answer in both(thrown):
            assert answer.startswith("source.ddl: a record is no envelope of changes, such as a null")
            assert "source.from_json" in answer


def test_a_message_of_an_unknown_cause_is_withheld_and_by_text_its_class_too() -> None:
    answer, by_text = both(link("com.example.DriverException", "cannot store Eastley"))
    assert answer == f"DriverException; {WITHHELD}"
    assert by_text == f"ExecutionException; {WITHHELD}"
    assert why_failed(trace(link("com.Eastley", "x"))) == f"an error; {WITHHELD}"


def test_a_path_of_the_configuration_is_told_where_the_message_is_withheld() -> None:
    answer, _ = both(link("java.io.IOException", "cannot write Eastley to /data/out/audit/.part-0"))
    assert answer == f"IOException at sinks.audit.path: file:///data/out/audit/; {WITHHELD}"


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (
            "/tmp/Eastley: No space left on device",
            "sinks.released.path or sinks.audit.path or sinks.rejected.path or flink.io.tmp.dirs",
        ),
        ("/data/out/audit/.part-0: Disk quota exceeded", "sinks.audit.path: file:///data/out/audit/"),
    ],
)
def test_a_full_disk_is_told_with_all_folders_that_may_be_on_it(message: str, fields: str) -> None:
    for answer in both(link("java.io.IOException", message)):
        assert re.fullmatch(rf"{re.escape(fields)}: a disk is full( \(IOException\))?\. Free space, or .*", answer)


UNFIT_TIMEOUT = "org.apache.flink.kafka.shaded.org.apache.kafka.common.errors.InvalidTxnTimeoutException"
UNKNOWN_TOPIC = "org.apache.flink.kafka.shaded.org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
KAFKA = {"connector": "kafka", "topic": "visits"}
TOPICS = JobSetup({"source.ddl": KAFKA}, {"released": {**KAFKA, "topic": "visits-out"}}, {})


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("Topic visits-out not present in metadata after 60000 ms.", ["sinks.released: 'topic' = 'visits-out'"]),
        ("Failed to describe visits: Eastley", ["source.ddl: 'topic' = 'visits'"]),
        ("Eastley", ["source.ddl: 'topic' = 'visits'", "sinks.released: 'topic' = 'visits-out'"]),
    ],
)
def test_a_missing_topic_is_told_by_the_field_that_names_it(message: str, fields: list[str]) -> None:
    failed = FailedError(
        OUTER, link("java.lang.RuntimeException", message), link(UNKNOWN_TOPIC, "This server does not")
    )
    reported = (
        f"{' or '.join(fields)}: a topic of Kafka is missing (UnknownTopicOrPartitionException). Create the topic"
    )
    assert why_failed(failed, TOPICS).startswith(reported)


def test_a_timeout_that_brokers_refuse_is_told_with_its_value() -> None:
    setup = JobSetup({}, {"audit": {"connector": "kafka", "properties.transaction.timeout.ms": "3600000"}}, {})
    assert why_failed(FailedError(OUTER, link(UNFIT_TIMEOUT, "larger than the maximum")), setup).startswith(
        "sinks.audit: 'properties.transaction.timeout.ms' = '3600000': the timeout of transactions is longer than the "
        "brokers allow (InvalidTxnTimeoutException). Raise transaction.max.timeout.ms"
    )


def test_what_only_the_logs_tell_is_told_too(tmp_path: Path) -> None:
    ended = FailedError(
        OUTER, link("org.apache.flink.util.FlinkExpectedException", "The TaskExecutor is shutting down.")
    )
    assert why_failed(ended, TOPICS, logs=tmp_path) == f"FlinkExpectedException; {WITHHELD}"
    # The last task fails because the TaskManager has gone.
    names = "java.net.ConnectException", UNKNOWN_TOPIC, "org.apache.flink.util.FlinkExpectedException"
    failures = (trace(OUTER, link(name, "Eastley")) for name in names)
    lines = (
        f"2026-11-27 03:00:00,1 WARN Task [] - s switched from RUNNING to FAILED with failure cause:\n{each}"
        for each in failures
    )
    (tmp_path / "flink.log").write_text("\n".join(lines) + "2026-11-27 03:00:01,1 ERROR Task [] - FATAL Eastley\n")
    answer = why_failed(ended, TOPICS, logs=tmp_path)
    assert answer.startswith(
        "source.ddl: 'topic' = 'visits' or sinks.released: 'topic' = 'visits-out': a topic of Kafka is missing. "
    )
    # Any other error tells by itself.
    assert why_failed(FailedError(OUTER), TOPICS, logs=tmp_path) == f"ExecutionException; {WITHHELD}"


def test_a_class_that_the_client_does_not_have_is_told_as_others_are() -> None:
    failed = FailedError(OUTER, link("java.io.CharConversionException", "Invalid UTF-8 of Eastley"), serialized=True)
    assert why_failed(failed, SETUP).startswith("source.ddl: the input is not UTF-8 (CharConversionException). Convert")


def test_without_a_setup_neither_field_nor_remedy_is_told() -> None:
    failed = FailedError(OUTER, link("java.lang.NumberFormatException", "Eastley"))
    assert (
        why_failed(failed)
        == "a value of the source could not be read as the type of its column (NumberFormatException)"
    )


def test_an_error_that_is_not_javas_is_told_by_its_class() -> None:
    assert why_failed(RuntimeError("Eastley")) == f"RuntimeError; {WITHHELD}"


def worker(error: BaseException, signer: ErrorSigner | None = None) -> str:
    """Return Java's text of an error in a worker: Python's traceback."""
    try:
        with (signer or ErrorSigner()).signing():
            raise error
    except type(error):
        return f"Error received from SDK harness for instruction 2: {traceback.format_exc()}"


@pytest.mark.parametrize("kind", [InvariantError, PolicyError, StateError])
def test_what_our_own_code_says_is_told(kind: type[Exception]) -> None:
    own = "the stored state of shard 2 was made under another policy"
    for answer in both(link("java.lang.RuntimeException", worker(kind(own)))):
        assert answer == own


def test_a_library_error_in_a_worker_tells_its_place_and_not_its_message() -> None:
    with pytest.raises(ValueError, match="Eastley") as raised, ErrorSigner().signing():
        add_kind("Eastley", 4711)
    text = "".join(traceback.format_exception(raised.value))
    for answer in both(link("java.lang.RuntimeException", text)):
        assert re.fullmatch(rf"ValueError in state/codec\.py, line \d\d; {WITHHELD}", answer)


def test_the_causes_of_an_error_stay_in_its_trace() -> None:
    try:
        raise KeyError("first")
    except KeyError as first:
        second = ValueError("second")
        second.__context__ = first
    text = worker(second)
    assert text.index("crenel:") < text.index("first") < text.index("second")
    assert why_failed(trace(link("java.lang.RuntimeException", text))).startswith("ValueError in a Python worker; ")


def test_an_error_of_a_worker_that_is_not_signed_for_this_process_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    signer = ErrorSigner()
    monkeypatch.setattr(signer, "_key", b"another")
    for answer in both(link("java.lang.RuntimeException", worker(PolicyError("Eastley"), signer))):
        assert answer.endswith(f" in a Python worker; {WITHHELD}")
        assert "Eastley" not in answer


FORGED = [
    *SECRETS,
    "\n",
    "\nCaused by: java.io.FileNotFoundException: Eastley 4711",
    "\nCaused by: java.time.EastleyException: 4711",
    "\nCaused by: com.Eastley: /data/in.csv",
    "\n\tat Eastley.x(Y.java:4711)\n\t... 4711 more\nCaused by: java.net.ConnectException: Eastley\n",
    'Traceback (most recent call last):\n  File "/x/operators/Eastley.py", line 4711, in x\n    x()\n',
    "RuntimeError: Eastley",
    '\n  File "/x/anonymity/errors.py", line 4711\nanonymity.errors.PolicyError: Eastley\n',
    "state.codec.StateError: Eastley\n",
    f"crenel:{'0' * 64}:{base64.b64encode(b'Eastley').decode()}",
    "crenel:" + signed_errors._signed(b"", "Eastley").removeprefix("crenel:"),
    "No space left on device",
    "Fail to deserialize at field: Eastley.",
    "Exceeded checkpoint tolerable failure threshold",
    ". The latest checkpoint failed due to Checkpoint expired before completing.",
    "Failed to deserialize Avro record.",
    "Unsupported to derive Schema for type: Eastley",
    "RowTime field should not be null, please convert it to a non-null long value.",
    "CANCELLED: call already cancelled. 4711",
    "Row length mismatch. 4711 fields expected but was 4711.",
    "/data/out/audit/Eastley",
    "An error occurred while calling Eastley\n: java.net.BindException: Eastley",
]
CLASSES = [
    *("java.lang.RuntimeException", "java.io.IOException", "java.lang.NumberFormatException", "com.example.Driver"),
    *("java.io.FileNotFoundException", "java.net.ConnectException", "java.net.UnknownHostException"),
    *("java.nio.file.NoSuchFileException", "org.apache.flink.runtime.client.JobCancellationException"),
    "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException",
    "org.apache.flink.kafka.shaded.org.apache.kafka.common.errors.TimeoutException",
    UNFIT_TIMEOUT,
    UNFIT_TIMEOUT.replace("errors.InvalidTxnTimeoutException", "KafkaException"),
    UNKNOWN_TOPIC,
    "org.apache.flink.util.FlinkRuntimeException",
    "java.lang.UnsupportedOperationException",
    "x.jackson.dataformat.csv.CsvReadException",
    "x.jackson.core.JsonParseException",
    "com.google.protobuf.InvalidProtocolBufferException",
    *("org.apache.beam.vendor.grpc.v1p60p1.io.grpc.StatusRuntimeException", "java.lang.IllegalStateException"),
    "org.apache.flink.formats.json.JsonParseException",
]
messages = st.lists(st.sampled_from(FORGED) | st.text(max_size=5), max_size=6).map("".join)
links = st.tuples(
    st.sampled_from(CLASSES), messages, st.sampled_from(["x.Y.z(Y.java:1)", "a.CsvToRowDataConverters.x()"])
)


@given(st.lists(links, min_size=1, max_size=4), st.booleans(), st.sampled_from([None, SETUP]))
def test_no_value_of_a_record_is_told_whatever_messages_imitate(
    chain: list[Link], serialized: bool, setup: JobSetup | None
) -> None:
    for answer in (
        why_failed(FailedError(*chain, serialized=serialized), setup),
        why_failed(trace(*chain), setup, chain[0][0]),
        why_failed("".join(message for _, message, _ in chain), setup),
    ):
        assert not [secret for secret in SECRETS if secret in answer], answer


def test_all_causes_are_among_the_classes_that_messages_imitate() -> None:
    unknown = [
        pattern
        for cause in CAUSES
        for pattern in cause.patterns
        if not any(re.match(pattern.partition(": ")[0], name) for name in CLASSES)
    ]
    assert unknown == [r"java\.(io\.CharConversion|nio\.charset\.\w+)Exception: "]


def failure(cause: str) -> RuntimeError:
    """Return an error whose text alone is read, as where a job is refused."""
    return RuntimeError(f"org.apache.flink.runtime.client.JobExecutionException: Job execution failed.{AT}{cause}")


def test_why_a_job_did_not_start_is_the_last_cause() -> None:
    error = RuntimeError(
        "org.apache.flink.table.api.ValidationException: Unable to create a sink for writing table 'x'.\n\n"
        f"Table options are:\n\n'connector'='kafka'{AT}"
        "Caused by: org.apache.flink.table.api.ValidationException: One option is missing."
        f"\n\nOptions are:\n\ntopic{AT}"
    )
    assert why_refused(error) == "ValidationException: One option is missing.\nOptions are:\ntopic"


@pytest.mark.parametrize(
    ("table", "cause", "answer"),
    [
        (
            "source",
            "NoFactory: Could not find any factory for identifier 'kafka' that implements X in the classpath.\n\nprint",
            "NoFactory at source.ddl: Could not find any factory for identifier 'kafka' that implements X in the "
            "classpath; name the file of flink-sql-connector-kafka in flink.pipeline.jars (docs/how-to/deploy.md)\n",
        ),
        (
            "crenel_sink_audit",
            "NoFactory: Could not find any format factory for identifier 'jsno' in the classpath.",
            "NoFactory at sinks.audit: Could not find any format factory for identifier 'jsno' in the classpath; "
            "correct the name, or name the jar that has it in flink.pipeline.jars (docs/how-to/deploy.md)",
        ),
        (
            "visits",
            "NoClassDefFoundError: org/apache/hadoop/conf/Configuration",
            "NoClassDefFoundError: org/apache/hadoop/conf/Configuration; Flink has no Hadoop client, which the catalog",
        ),
        (
            "forget",
            "IllegalArgumentException: get a.Visit descriptors error!",
            "IllegalArgumentException at source.forget.ddl: get a.Visit descriptors error!; name the jar of the",
        ),
        (
            "crenel_sink_released",
            "UnsupportedOperationException: Unsupported to derive Schema for type: TIMESTAMP_LTZ(3)",
            "UnsupportedOperationException at sinks.released: Unsupported to derive Schema for type: TIMESTAMP_LTZ(3); "
            "CAST it to TIMESTAMP(3) in source.query, and an event time to BIGINT of epoch milliseconds; of Kafka with "
            "avro, set avro.timestamp_mapping.legacy to false instead",
        ),
    ],
)
def test_what_flink_lacks_is_told_with_its_field_and_remedy(table: str, cause: str, answer: str) -> None:
    outer = f"x.ValidationException: Unable to create a source for reading table 'default.{table}'.\n\nOptions{AT}"
    assert why_refused(RuntimeError(f"{outer}Caused by: java.{cause}{AT}")).startswith(answer)


def configured(ddl: str = "", **others: Any) -> Any:
    """Return the fields of a configuration that a refusal reads."""
    source = Source(
        f"CREATE TEMPORARY TABLE source (a INT) WITH ({ddl})",
        "SELECT a, SHA256('hush''salt') AS b FROM source",
        varied=frozenset({"source.query"}),
    )
    fields = {"subject_key": NO_KEY, "audit_chain": None, "flink": {}, "catalogs": {}, "sinks": {}, "source": source}
    return SimpleNamespace(**fields | others)


def test_a_path_that_a_job_could_not_start_for_is_told_with_its_field() -> None:
    error = failure(f"Caused by: java.io.IOException: Failed to create directory: file:/data/kept/4711{AT}")
    assert why_refused(error, configured(flink={"execution.checkpointing.dir": "file:///data/kept"})) == (
        "IOException at flink.execution.checkpointing.dir: file:///data/kept: "
        "Failed to create directory: file:/data/kept/4711"
    )


ODD = "hush '\"\\\n頭"


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (  # where Flink lists options, it doubles quotes and hides those alone whose names it knows
            "Unable to create a source for reading table 'a'.\n\nTable options are:\n\n'connector'='jdbc'\n"
            f"'password'='******'\n'token-file'='{ODD.replace(chr(39), 2 * chr(39))}'\n'url'='jdbc:db://u:{ODD}@h'",
            "'connector'='jdbc'\n'password'='******'\n'token-file'='******'\n'url'='******'",
        ),
        (f"Option 'csv.x' must be a string with single character, but was: {ODD}", "but was: ******"),
        ("Could not parse value '5 s and more' for key 'poll'.", "Could not parse value '******' for key 'poll'."),
        ("text is not a duration: 10 sec", "text is not a duration: 10 sec"),
        (
            "Invalid key hushsetting of hushkey and hushchain, hushsink",
            "Invalid key ****** of ****** and ******, ******",
        ),
        ("Calc(select=[_UTF-16LE'hush''salt':VARCHAR AS x, SHA256('hush'salt')])", "'******':VARCHAR AS x, SHA256("),
        # The subjects of `crenel forget` are in its statement, and not in the configuration.
        ("Values(tuples=[[{ _UTF-16LE'hu''sh 4711' }]])", "Values(tuples=[[{ '******' }]])"),
        (
            "No dialect for jdbc:db://scott:hu/sh@h:1/d?a=1&sslPassword=hush;Token=x",
            "jdbc:db://******@h:1/d?a=1&sslPassword=",
        ),
    ],
)
def test_a_refusal_shows_no_value_of_an_option_that_may_be_secret(
    message: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAIN_KEY", "hushchain")
    quoted = ODD.replace("'", "''")
    config = configured(
        f"'connector' = 'jdbc', 'password' = '{quoted}', 'url' = 'jdbc:db://u:{quoted}@h', 'token-file' = '{quoted}', "
        "'poll' = '5 s and more', 'rest' = '10 sec'",
        subject_key=SubjectKey.of(b"hushkey"),
        audit_chain=Secret("audit_chain.key", source=EnvironmentKey("CHAIN_KEY")),
        flink={"s3.secret-key": "hushsetting", "parallelism.default": "2"},
        sinks={"released": {"connector": "jdbc", "table-name": "Invalid", "user": "hushsink"}},
    )
    shown = why_refused(failure(f"Caused by: org.apache.flink.table.api.ValidationException: {message}{AT}"), config)
    assert answer in shown
    assert "_material" not in vars(config.subject_key)  # scrypt takes 0.3 s
    assert not re.search("hush|salt|scott|hu/sh|4711", shown)


def test_no_text_shows_a_user_or_a_password_of_a_url() -> None:
    assert without_passwords("sinks.x.path: ftp://scott:ti'g@er@host/out is full; see host@x") == (
        "sinks.x.path: ftp://******@host/out is full; see host@x"
    )
    for text in ("http://host/a?b=c&d=e", "file:///data/a@b", "s3://bucket/x?version=2"):
        assert without_passwords(text) == text
