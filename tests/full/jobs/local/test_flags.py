"""Start of Java in a local run: arguments of this project, and of a user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from crenel.jobs.local.flags import prepare_java


def started(monkeypatch: pytest.MonkeyPatch, given: str) -> dict[str, str]:
    """Return the settings of a Java that is started as in a local run, with ``JVM_ARGS`` of a user."""
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    monkeypatch.setenv("JVM_ARGS", given)
    monkeypatch.delitem(sys.modules, "pyflink.java_gateway", raising=False)
    prepare_java()
    prepared = os.environ["JVM_ARGS"]
    prepare_java()
    assert os.environ["JVM_ARGS"] == prepared
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    answer = subprocess.run(
        [str(java), *prepared.split(), "-XX:+PrintFlagsFinal", "-version"], capture_output=True, text=True, check=True
    )
    return dict(re.findall(r"^\s*\S+\s+(\w+)\s+:?=\s*(\S+)", answer.stdout, re.MULTILINE))


@pytest.mark.flink
def test_what_rows_leave_behind_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    found = started(monkeypatch, "")
    assert (found["MaxNewSize"], found["UseSerialGC"]) == (str(256 << 20), "true")


@pytest.mark.flink
def test_what_the_user_asks_of_java_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    found = started(monkeypatch, "-Xmx3g -XX:+UseParallelGC -Xmn512m")
    assert (found["MaxHeapSize"], found["MaxNewSize"]) == (str(3 << 30), str(512 << 20))
    assert (found["UseParallelGC"], found["UseSerialGC"]) == ("true", "false")
