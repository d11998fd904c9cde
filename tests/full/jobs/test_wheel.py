"""The wheel, installed where nothing of the checkout is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyflink
import pytest

from crenel.anonymity.compiled.cache import digest
from tests.support.launch import ROOT, TIMEOUT

pytestmark = pytest.mark.flink

PARTS = (
    "anonymity",
    "conf",
    "crenel",
    "evidence",
    "jobs",
    "operators",
    "state",
    "LICENSE",
    "README.md",
    "pyproject.toml",
)
COMPILED = Path("anonymity", "algorithms", "castle", "procedures.py")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the ``bin`` of an environment with the wheel in it; what the wheel needs is that of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, sources / part, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / part, sources)
    build = ("wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", folder, sources)
    succeeded(sys.executable, "-m", "pip", *build)
    shutil.rmtree(sources)
    succeeded(sys.executable, "-m", "venv", "--without-pip", folder / "environment")
    bin_folder = folder / "environment" / "bin"
    (wheel,) = folder.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", bin_folder / "python")
    succeeded(*pip, "install", "--no-deps", "--no-index", wheel)
    site_packages = succeeded(bin_folder / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    Path(site_packages.strip(), "dependencies.pth").write_text(
        f"{Path(pyflink.__file__).parents[1]}\n", encoding="utf-8"
    )
    return bin_folder


def test_the_demo_runs_from_it(installed: Path, tmp_path: Path) -> None:
    shown = succeeded(installed / "crenel", "demo", "--rows", "2000", "--keep", tmp_path / "demo", cwd=tmp_path)
    text = " ".join(shown.split())
    for part in ("Before: 4 visits", "After: ", "rows in 2,000", "mean loss", "Files in", str(installed.parent)):
        assert part in text
    assert any((tmp_path / "demo" / "released").rglob("part-*"))
    assert "</html>" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")


def test_it_compiles_nothing_that_its_sources_have_compiled(installed: Path, tmp_path: Path) -> None:
    script = (
        "from crenel import anonymity; from pathlib import Path; from crenel.anonymity.compiled.cache import digest; "
        f"print(digest(Path(anonymity.__file__).parents[1] / {str(COMPILED)!r}), anonymity.__file__)"
    )
    found, place = succeeded(installed / "python", "-c", script, cwd=tmp_path).split()
    assert found == digest(ROOT / COMPILED)
    assert Path(place).is_relative_to(installed.parent)


def test_it_brings_what_conf_holds(installed: Path, tmp_path: Path) -> None:
    script = "from importlib.resources import files; print(files('crenel.jobs') / 'examples')"
    examples = Path(succeeded(installed / "python", "-c", script, cwd=tmp_path).strip())
    assert examples.is_relative_to(installed.parent)
    held = {file.relative_to(ROOT / "conf") for file in (ROOT / "conf").rglob("*") if file.is_file()}
    assert {file.relative_to(examples) for file in examples.rglob("*") if file.is_file()} == held


def succeeded(*command: str | Path, cwd: Path | None = None) -> str:
    """Return the output of a command, with nothing in its environment that leads to the checkout."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, env=variables, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
