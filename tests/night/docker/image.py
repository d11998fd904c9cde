"""The image, built by the Dockerfile's own steps in a clean root, and run there: ``make image``.

It takes minutes, root, debootstrap, and what the image itself takes: packages of Debian, PyPI and Maven Central. So it
is no part of ``make test``, and pytest finds it by its name only. As no registry of images need be reached, it begins
with Debian and the Flink of the ``apache-flink`` package, in the place and under the user of Flink's image.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyflink
import pytest

from crenel.anonymity.compiled.folders import cached
from tests.docker.test_files import COMPOSE
from tests.night.docker.chroot import Root, build
from tests.support.launch import ROOT

SUITE = "bookworm"
"""The release of Debian; its Python is 3.11, that of Flink's image 3.12."""

JAVA = "/usr/lib/jvm/java-17-openjdk-amd64"
FLINK = Path(pyflink.__file__).parent
ROWS = 20_000


@pytest.fixture(scope="session")
def debian() -> Root:
    """Return a clean Debian with Java and Maven; kept for the next time."""
    lacking = [name for name in ("debootstrap", "unshare", "chroot", "ip") if shutil.which(name) is None]
    if os.geteuid() != 0 or lacking:
        pytest.exit(f"the test of the image needs root and {' '.join(lacking) or 'debootstrap'}", 2)
    cache = cached("image")
    assert cache is not None
    root = Root(cache / SUITE, {"JAVA_HOME": JAVA})
    if not root.folder.exists():
        made = root.folder.with_suffix(f".{os.getpid()}")
        try:
            succeeded("debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, made)
            install = "apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless maven"
            done = Root(made).run(install, building=True, capture_output=True)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr
            made.rename(root.folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return root


@pytest.fixture(scope="session")
def image(debian: Root) -> Iterator[Root]:
    """Yield the last stage of the Dockerfile."""
    cache = cached("image")
    assert cache is not None
    folder = cache / f"stages.{os.getpid()}"
    folder.mkdir()
    try:
        base = debian.copied(folder / "flink")
        home = base.folder / "opt" / "flink"
        home.mkdir(parents=True)
        for name in ("bin", "conf", "lib", "opt", "plugins"):
            shutil.copytree(FLINK / name, home / name)
        (home / "log").mkdir()
        script = (
            "groupadd --system --gid=9999 flink && useradd --system --home-dir /opt/flink --uid=9999 --gid=flink flink"
            " && chown -R flink:flink /opt/flink && chmod +x /opt/flink/bin/*"
        )
        done = base.run(script, capture_output=True)
        assert done.returncode == 0, done.stderr
        path = "/opt/flink/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        flink = Root(base.folder, {**base.env, "FLINK_HOME": "/opt/flink", "PATH": path}, "9999:9999", "/opt/flink")
        yield build(ROOT / "docker" / "Dockerfile", ROOT, {"FLINK_IMAGE": flink, "MAVEN_IMAGE": debian}, folder)
    finally:
        shutil.rmtree(folder)


def test_nobody_is_root_in_it_and_nothing_compiles(image: Root) -> None:
    assert image.user == "9999:9999"
    shown = inside(image, "id -u; command -v gcc cc c++ make javac || echo none; touch /opt/crenel/new 2>&1 || true")
    assert shown.splitlines()[:2] == ["9999", "none"]
    assert "Permission denied" in shown
    mine = [path for path in image.path("/opt/crenel").rglob("*") if path.lstat().st_uid != 0]
    assert mine == []


def test_the_demo_runs_and_compiles_nothing(image: Root) -> None:
    before = compiled(image)
    assert before
    started = time.monotonic()
    shown = inside(image, f"crenel demo --rows {ROWS}")
    print(f"\ncrenel demo --rows {ROWS}: {time.monotonic() - started:.0f} s")
    assert f"rows in {ROWS:,}" in " ".join(shown.split())
    assert "After: " in shown
    assert compiled(image) == before
    # Without what the image brings it would have compiled, and kept it.
    inside(image, "unset CRENEL_COMPILED && crenel demo --rows 200")
    assert len(compiled(image)) > len(before)


def test_its_jobmanager_runs_a_policy_in_application_mode(image: Root) -> None:
    of_compose = COMPOSE["services"]["jobmanager"]["command"]
    assert of_compose[0] == "standalone-job"  # to the entrypoint of Flink's image
    policy = "$(python -c 'from importlib.resources import files; print(files(\"crenel.jobs\"))')/examples/demo.yaml"
    script = f"""
export CRENEL_DEMO_INPUT=/tmp/stream.csv CRENEL_DEMO_OUTPUT=/tmp/out
python -c 'from crenel.jobs.cli import synthetic; synthetic.write("/tmp/stream.csv", {ROWS})'
taskmanager.sh start
standalone-job.sh start-foreground {shlex.join(of_compose[1:-1])} "{policy}" 2>&1 | grep -v " INFO " | tail -n 80
"""
    started = time.monotonic()
    shown = inside(image, script)
    print(f"\na cluster, its job and its end: {time.monotonic() - started:.0f} s")
    assert any(path.stat().st_size for path in image.path("/tmp/out/released").rglob("part-*")), shown


def test_it_has_the_connectors_that_were_asked_for(image: Root) -> None:
    lines = (ROOT / "docker" / "connectors.txt").read_text(encoding="utf-8").splitlines()
    names = {"{0[1]}-{0[2]}.jar".format(line.split()[1].split(":")) for line in lines if not line.startswith("#")}
    assert names
    assert names <= {path.name for path in image.path("/opt/flink/lib").iterdir()}


def inside(image: Root, command: str) -> str:
    """Return the output of a command that runs in the image as its user, and must succeed."""
    done = image.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    assert done.returncode == 0, done.stdout[-6000:]
    return str(done.stdout)


def compiled(image: Root) -> set[Path]:
    """Return all files of compiled code in the image."""
    roots = [image.path(place) for place in ("/opt", "/tmp", "/var", "/home", "/root", "/usr/local")]
    return {path for place in roots for path in place.rglob("*.nb[ci]")}


def succeeded(*command: str | Path) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-3000:]}"
