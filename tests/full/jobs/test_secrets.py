"""A job with marked secrets and records: all that it shows and leaves behind is searched for the marks."""

from __future__ import annotations

import base64
import json
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from crenel.jobs.local.stop import descendants
from tests.support.cluster import free_port
from tests.support.launch import Host
from tests.support.processes import command
from tests.support.visits import visits, write

ODD = "'\"\\\nß頭"
"""Characters that end a literal, a line or a word, and characters of more than one byte."""

VARIABLES = {
    "SUBJECT_KEY": f"Qk7subjectkey {ODD}",
    "OPTION": f"Qk7option {ODD}",
    "SALT": f"Qk7salt {ODD}",
    "SETTING": "Qk7setting",
}
"""Secrets in the environment."""

FILES = {
    "chain_key": f"Qk7chainkey {ODD}",
    "url": f"jdbc:db://user:Qk7user{ODD}@host/db?password=Qk7query{ODD}",
    "sink": f"Qk7sink {ODD}",
}
"""Secrets in files."""

pytestmark = pytest.mark.flink

SECRETS = ("Qk7subjectkey", "Qk7option", "Qk7salt", "Qk7setting", "Qk7chainkey", "Qk7user", "Qk7query", "Qk7sink")
UNPUBLISHED = ("Qk7person", "Qk7name", "Qk7atlantis")
"""Values of a subject, of a dropped column, and of a category that is rejected."""

PUBLISHED = ("Qk7town", "Qk7illness")
VALUES = (*SECRETS, *UNPUBLISHED, *PUBLISHED)

OF_CLUSTER = ("/jobs/overview", "/jobmanager/config", "/jobmanager/environment")
OF_JOB = ("", "/plan", "/config", "/exceptions", "/checkpoints", "/accumulators", "/jobmanager/config")
"""Paths of the REST interface, and those below a job."""

ROWS = 600

SLOW = """
  forget:
    ddl: |
      CREATE TEMPORARY TABLE forget (person STRING)
      WITH ('connector' = 'datagen', 'number-of-rows' = '40', 'rows-per-second' = '5', 'fields.person.length' = '9')
"""
"""Requests for nobody, which a job waits for, so that its web page can be read meanwhile."""


def test_a_run_shows_and_leaves_no_secret(mini: Host, tmp_path: Path) -> None:
    job = marked_job(tmp_path / "job")
    checked = mini.crenel("check", job, **VARIABLES)
    assert (checked.returncode, leaks(checked.stdout + checked.stderr)) == (0, []), checked.stderr
    refused = mini.crenel("run", job, "--set", "sinks.audit.csv.field-delimiter=${OPTION}", **VARIABLES)
    assert refused.returncode == 2
    assert "but was: ******" in refused.stderr
    assert leaks(refused.stdout + refused.stderr) == []

    page = tmp_path / "run.html"
    watched(mini, "run", job, "--report", page)
    assert leaks(page.read_bytes()) == []
    written = [tmp_path / "job" / name for name in ("released", "suppressed", "rejected", "audit", "summary")]
    assert [found for folder in written for found in leaks_in(folder, (*SECRETS, *UNPUBLISHED))] == []
    assert leaks_in(tmp_path / "job" / "released", PUBLISHED)  # the search finds what is there
    assert leaks_in(mini.folder, VALUES) == []

    failing = mini.crenel("run", marked_job(tmp_path / "failing", wage="Qk7wage"), **VARIABLES)
    assert failing.returncode == 1
    assert leaks(failing.stdout + failing.stderr, (*VALUES, "Qk7wage")) == []
    assert leaks_in(mini.folder, SECRETS) == []  # logs of a run that failed are kept


def test_a_command_that_reads_a_sample_shows_no_secret(mini: Host, tmp_path: Path) -> None:
    job, folder = marked_job(tmp_path / "job"), tmp_path / "parts"
    folder.mkdir()
    shutil.copy(tmp_path / "job" / "in.csv", folder / "1.csv")
    text = job.read_text(encoding="utf-8")
    path = f"'path' = '{tmp_path}/job/in.csv'"
    assert text.count(path) == 1
    text = text.replace(path, f"'path' = '{folder}', 'source.monitor-interval' = '200 ms'").replace(SLOW, "\n")
    job.write_text(text, encoding="utf-8")

    def more() -> None:
        """Add what the sample still lacks, so that the command ends."""
        shutil.copy(tmp_path / "job" / "in.csv", tmp_path / "2.csv")
        (tmp_path / "2.csv").rename(folder / "2.csv")

    watched(mini, "why", job, "--rows", str(ROWS), met=more)


def watched(mini: Host, *arguments: str | Path, met: Callable[[], object] = lambda: None) -> None:
    """Run a command whose processes and web page show no mark; ``met``: called once the page has shown a plan."""
    port = free_port()
    settings = ("--set", f"flink.rest.port={port}", "--set", f"flink.rest.bind-port={port}")
    commands: set[str] = set()
    answers: dict[str, bytes] = {}
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(mini.crenel, *arguments, *settings, mode="process", **VARIABLES)
        while not run.done():
            commands |= {command(process) for process in descendants(mini.process)}
            before = len(answers)
            with suppress(OSError):  # no cluster runs
                read_rest(f"http://localhost:{port}", answers)
            if answers and not before:
                met()
            time.sleep(0.1)
        done = run.result()
    assert (done.returncode, leaks(done.stdout + done.stderr)) == (0, []), done.stderr
    assert [line for line in commands if leaks(line)] == []
    assert any(path.endswith("/plan") for path in answers)
    assert {path: found for path, content in answers.items() if (found := leaks(content))} == {}


def marked_job(folder: Path, **changed: str) -> Path:
    """Write a job and its input; return the path of its configuration. ``changed``: fields of the first row."""
    rows = [row | {"person": row["person"] and f"Qk7person {row['person']}", "name": "Qk7name"} for row in visits()]
    path = write(folder, [rows[0] | changed, *rows[1:ROWS]])
    for file in (folder / "in.csv", folder / "towns.csv"):
        text = file.read_text(encoding="utf-8")
        for plain, marked in (("Weißenburg", "Qk7town"), ("cold", "Qk7illness"), ("Atlantis", "Qk7atlantis")):
            text = text.replace(plain, marked)
        file.write_text(text, encoding="utf-8")
    for name, secret in FILES.items():
        (folder / name).write_text(secret, encoding="utf-8")
    text = path.read_text(encoding="utf-8") + "flink: {s3.secret-key: '${SETTING}'}\n"
    for plain, marked in (
        (
            "a key for tests, of 16 bytes or more",
            f"${{SUBJECT_KEY}}\naudit_chain: {{key: '${{file:{folder}/chain_key}}'}}",
        ),
        (
            "'csv.null-literal' = ''",
            f"'csv.null-literal' = '', 'csv.password' = '${{OPTION}}', 'csv.url' = '${{file:{folder}/url}}'",
        ),
        ("illness, ts FROM", "CASE illness WHEN '${SALT}' THEN '' ELSE illness END AS illness, ts FROM"),
        ("\nsinks:", f"{SLOW}sinks:"),
        ("audit, format: csv}", f"audit, format: csv, csv.password: '${{file:{folder}/sink}}'}}"),
    ):
        assert text.count(plain) == 1, plain
        text = text.replace(plain, marked)
    path.write_text(text, encoding="utf-8")
    return path


def leaks(content: bytes | str, wanted: Iterable[str] = VALUES) -> list[str]:
    """Return which marks a content holds, as text or in base64."""
    content = content.encode() if isinstance(content, str) else content
    return [mark for mark in wanted if any(form in content for form in forms(mark.encode()))]


def forms(mark: bytes) -> Iterator[bytes]:
    yield from (mark, mark.hex().encode())
    for shift in range(3):  # without the digits that depend on the bytes before and behind
        yield base64.b64encode(b"\0" * shift + mark)[4 if shift else 0 : -4]


def leaks_in(folder: Path, wanted: Iterable[str]) -> list[tuple[Path, list[str]]]:
    """Return the files of a folder that have marks in their content or name."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [(path, found) for path in files if (found := leaks(path.read_bytes() + bytes(path), wanted))]


def read_rest(address: str, into: dict[str, bytes]) -> None:
    """Add what the REST interface answers about jobs that have tasks, by path; plans first, as a job may soon end."""
    for one in json.loads(get(f"{address}/jobs"))["jobs"]:
        job = f"/jobs/{one['id']}"
        vertices = [f"{job}/vertices/{vertex['id']}" for vertex in json.loads(get(address + job))["vertices"]]
        if vertices and f"{job}/plan" not in into:
            into[f"{job}/plan"] = get(f"{address}{job}/plan")
            of_vertices = [f"{vertex}{rest}" for vertex in vertices for rest in ("", "/accumulators", "/metrics")]
            for path in (*OF_CLUSTER, *(job + rest for rest in OF_JOB), *of_vertices):
                into[path] = get(address + path)


def get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=20) as answer:
        return bytes(answer.read())
