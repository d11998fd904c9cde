"""Why a job failed is told in one sentence, and without anything of a record."""

from __future__ import annotations

import pytest

from jobs.failure import why_failed, why_refused

SECRET = "Mrs Eastley"

AT = "\n\tat x.Y.z(Y.java:1)\n"

HEAD = """An error occurred while calling o271.get.
: java.util.concurrent.ExecutionException: org.apache.flink.client.program.ProgramInvocationException: Job failed
\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)
Caused by: org.apache.flink.runtime.client.JobExecutionException: Job execution failed.
\tat org.apache.flink.runtime.jobmaster.JobResult.toJobExecutionResult(JobResult.java:144)
\t... 5 more
"""

PYTHON = """Caused by: java.lang.RuntimeException: Error received from SDK harness for instruction 2: \
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/apache_beam/runners/worker/sdk_worker.py", line 311, in _execute
    response = task()
  File "/app/operators/encode/encoder.py", line 41, in encode
    keys = encode_rows(series)
{rest}

\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient.handle(FnApiControlClient.java:180)
"""


def failure(cause: str) -> RuntimeError:
    return RuntimeError(HEAD + cause)


def test_a_missing_file_is_named() -> None:
    told = why_failed(failure(f"Caused by: java.io.FileNotFoundException: File /data/in.csv does not exist{AT}"))
    assert told == "FileNotFoundException: File /data/in.csv does not exist"


@pytest.mark.parametrize(
    "cause",
    [
        f"Caused by: java.io.IOException: Failed to deserialize CSV row '1,{SECRET}'.{AT}",
        f'Caused by: java.lang.NumberFormatException: For input string: "{SECRET}"{AT}',
        f"Caused by: java.time.format.DateTimeParseException: Text '{SECRET}' could not be parsed{AT}",
    ],
)
def test_a_value_that_cannot_be_read_is_not_shown_but_what_to_do_is(cause: str) -> None:
    told = why_failed(failure(cause))
    assert SECRET not in told
    assert "TRY_CAST" in told


def test_a_message_of_an_unknown_cause_is_withheld() -> None:
    told = why_failed(failure(f"Caused by: com.example.DriverException: cannot store {SECRET}{AT}"))
    assert told == "DriverException; its message is withheld, because it may hold values of a record"


@pytest.mark.parametrize("path", ["/data/out/audit", "file:///data/out/audit/"])
def test_a_path_of_the_configuration_is_told_where_the_message_is_withheld(path: str) -> None:
    places = {"sinks.released.path": "/data/out", "sinks.audit.path": path, "sinks.rejected.path": "/data/out/audits"}
    error = failure(f"Caused by: java.io.IOException: cannot write {SECRET} to /data/out/audit/.part-0{AT}")
    assert why_failed(error, places) == (
        f"IOException at sinks.audit.path: {path}; its message is withheld, because it may hold values of a record"
    )


@pytest.mark.parametrize(
    "rest",
    [
        f"ValueError: could not convert string to float: '{SECRET}'",
        '  File "/venv/lib/python3.11/site-packages/pandas/core/frame.py", line 7, in f\n    g()\n'
        f"RuntimeError: bad value {SECRET}",
        f'  File "/venv/x.py", line 7, in f\n    g()\n    ^^^\nKeyError: {SECRET}\nEastley: a second line',
    ],
)
def test_a_library_error_in_a_worker_tells_its_place_and_not_its_message(rest: str) -> None:
    told = why_failed(failure(PYTHON.format(rest=rest)))
    assert "Eastley" not in told
    assert "in operators/encode/encoder.py, line 41" in told


@pytest.mark.parametrize(
    "rest",
    [
        "anonymity.errors.PolicyError: the stored state of shard 2 was made under another policy",
        '  File "/app/anonymity/castle/shard.py", line 99, in push\n    raise RuntimeError(text)\n'
        "RuntimeError: the stored state of shard 2 was made under another policy",
    ],
)
def test_what_our_own_code_says_is_told(rest: str) -> None:
    told = why_failed(failure(PYTHON.format(rest=rest)))
    assert told == "the stored state of shard 2 was made under another policy"


def test_why_a_job_did_not_start_is_the_last_cause() -> None:
    error = RuntimeError(
        "org.apache.flink.table.api.ValidationException: Unable to create a sink for writing table 'x'.\n\n"
        f"Table options are:\n\n'connector'='kafak'{AT}"
        "Caused by: org.apache.flink.table.api.ValidationException: Could not find any factory for identifier 'kafak'."
        f"\n\nAvailable factory identifiers are:\n\nfilesystem{AT}"
    )
    assert why_refused(error) == (
        "ValidationException: Could not find any factory for identifier 'kafak'.\n"
        "Available factory identifiers are:\nfilesystem"
    )


def test_a_path_that_a_job_could_not_start_for_is_told_with_its_field() -> None:
    error = failure(f"Caused by: java.io.IOException: Failed to create directory: file:/data/kept/4711{AT}")
    assert why_refused(error, {"flink.execution.checkpointing.dir": "file:///data/kept"}) == (
        "IOException at flink.execution.checkpointing.dir: file:///data/kept: "
        "Failed to create directory: file:/data/kept/4711"
    )


def test_an_error_that_is_not_javas_is_told_by_its_class() -> None:
    assert why_failed(RuntimeError(SECRET)) == (
        "RuntimeError; its message is withheld, because it may hold values of a record"
    )
