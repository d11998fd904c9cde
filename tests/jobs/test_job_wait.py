"""Messages of an attached ``flink run`` about the restarts of a job."""

from __future__ import annotations

from typing import Any

from crenel.jobs.causes import JobSetup
from crenel.jobs.job_wait import Restarts
from crenel.jobs.local.rest import Rest
from tests.jobs.local.test_rest import cluster

SECRET = "Mrs Eastley"
SETUP = JobSetup({"source.ddl": {"path": "/data/in.csv"}}, {}, {})


def failed(timestamp: int, cause: str, task: str | None = "castle -> (Calc[1], Sink: x) (2/4) - execution #0") -> Any:
    frame = "\n\tat x.Y.z(Y.java:1)\n"
    trace = f"org.apache.flink.runtime.JobException: Recovery{frame}Caused by: {cause}{frame}"
    name = "org.apache.flink.runtime.JobException"
    return {"timestamp": timestamp, "stacktrace": trace, "exceptionName": name, "taskName": task}


def job(state: str, *failures: Any) -> dict[str, Any]:
    return {"/jobs/j": {"state": state}, "/jobs/j/exceptions": {"exceptionHistory": {"entries": list(failures)}}}


def test_each_restart_is_told_once_with_its_task_and_cause_and_no_value() -> None:
    unread = f"java.lang.NumberFormatException: For input string: {SECRET}"
    gone = "java.io.FileNotFoundException: File /data/in.csv does not exist"
    first, second, third = failed(5, unread), failed(7, gone, None), failed(9, f"com.example.DriverException: {SECRET}")
    with cluster(job("RUNNING")) as address:
        assert list(Restarts(Rest(address, "j"), SETUP).new_restarts()) == []
    answers = job("RESTARTING", second, first)  # the newest first
    with cluster(answers) as address:
        restarts = Restarts(Rest(address, "j"), SETUP)
        messages = list(restarts.new_restarts())
        assert [line.partition(": ")[0] for line in messages] == ["restart 1", "restart 2"]
        assert "task castle (2/4) failed: source.ddl: a value of the source could not be read" in messages[0]
        assert messages[1].startswith(
            "restart 2: source.ddl: /data/in.csv: a file or folder is missing, or must not be"
        )
        assert list(restarts.new_restarts()) == []
        answers.update(job("FAILING", third, second))
        assert list(restarts.new_restarts()) == []  # it ends the job
        answers.update(job("RUNNING", third, second))
        (line,) = restarts.new_restarts()
        assert line == (
            "restart 3: task castle (2/4) failed: JobException; its message is withheld, because it may hold values of "
            "a record"
        )
        assert SECRET not in "".join([*messages, line])


def test_a_cluster_that_does_not_answer_tells_of_no_restart() -> None:
    with cluster({"/jobs/j": {"state": "RUNNING"}}) as address:
        assert list(Restarts(Rest(address, "j"), SETUP).new_restarts()) == []
    assert list(Restarts(Rest(address, "j"), SETUP).new_restarts()) == []
