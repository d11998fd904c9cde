"""Contents of all that is built: the archive of sources, the wheel, and a zip file for Flink's ``-pyfs``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from crenel.anonymity.compiled.cache import digest
from crenel.jobs import precompile
from crenel.operators.digests import code_version
from tests.support.launch import ROOT

IGNORED = shutil.ignore_patterns(
    ".git", ".gitignore", ".venv", "_build", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info"
)
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, 'build_' + sys.argv[1])(sys.argv[2]))"
COMPILED = "anonymity/algorithms/castle/procedures.py"
ZIPPED = f"""
import importlib.metadata, sys
importlib.metadata.version = None  # there is no metadata where nothing is installed
from pathlib import Path
import crenel.jobs.anonymize
from crenel.jobs import precompile
from crenel.anonymity.compiled.cache import digest
from crenel.operators.digests import code_version
print(crenel.jobs.anonymize.__file__, digest(Path(sys.argv[1], "crenel", {COMPILED!r})), code_version())
"""


def test_the_archive_of_sources_holds_every_file_and_no_link_and_makes_a_wheel_of_one_package(tmp_path: Path) -> None:
    sources, unpacked = tmp_path / "sources", tmp_path / "unpacked"
    shutil.copytree(ROOT, sources, symlinks=True, ignore=IGNORED)
    wanted, package = files(sources), {f"crenel/{file}" for file in files(sources / "crenel")}
    name = built("sdist", sources, tmp_path)
    with tarfile.open(tmp_path / name) as archive:
        assert all(member.isfile() or member.isdir() for member in archive)
        archive.extractall(unpacked, filter="data")
    unpacked /= name.removesuffix(".tar.gz")
    assert wanted - files(unpacked) == set()
    with ZipFile(tmp_path / built("wheel", unpacked, tmp_path)) as wheel:
        held = {file for file in wheel.namelist() if ".dist-info/" not in file}
        (metadata,) = (file for file in wheel.namelist() if file.endswith(".dist-info/METADATA"))
        required = [line for line in wheel.read(metadata).decode().splitlines() if line.startswith("Requires-Dist: ")]
    library = dict(re.findall(r"^Requires-Dist: ([\w-]+)([^;\n]*)$", "\n".join(required), re.MULTILINE))
    assert sorted(library) == ["PyYAML", "numba", "numpy", "pandas", "pyarrow", "pydantic"]
    assert all(">=" in versions for versions in library.values())
    assert "crenel/py.typed" in held
    assert held == package


def test_the_package_is_imported_from_a_zip_file_and_is_the_same_code_there(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "crenel", tmp_path / "folder" / "crenel", ignore=IGNORED)
    archive = shutil.make_archive(str(tmp_path / "crenel"), "zip", tmp_path / "folder")
    paths = [archive, *(path for path in sys.path if path and not Path(path, "crenel").exists())]
    place, compiled, version = printed("-c", ZIPPED, archive, cwd=tmp_path, PYTHONPATH=os.pathsep.join(paths)).split()
    assert place.startswith(archive)
    assert compiled == digest(ROOT / COMPILED)
    assert version == code_version()


def test_a_wheel_for_this_platform_holds_compiled_code_that_an_installation_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(command: list[str], *, env: dict[str, str], cwd: Path, check: bool) -> None:
        assert command[-2:] == ["-m", "crenel.jobs.precompile"]
        assert (Path(env["PYTHONPATH"]) / "crenel" / "jobs" / "precompile.py").is_file()
        place = Path(env["NUMBA_CACHE_DIR"]) / "crenel" / "compiled" / "stamp"
        place.mkdir(parents=True)
        (place / "entry.nbi").write_bytes(env["NUMBA_CPU_FEATURES"].encode())

    sources = tmp_path / "sources"
    shutil.copytree(ROOT, sources, symlinks=True, ignore=IGNORED)
    plain = tmp_path / built("wheel", sources, tmp_path)
    monkeypatch.setattr(precompile.subprocess, "run", compiled)
    made = precompile.add_compiled(plain)
    monkeypatch.undo()
    assert made.name.startswith(f"{plain.name.removesuffix('-py3-none-any.whl')}-cp{sys.version_info[0]}")
    installed = tmp_path / "installed"
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(installed), str(made))
    printed(*pip, cwd=tmp_path)
    program = "from crenel.anonymity.compiled.folders import precompiled_dir as d; print(d(), *d().rglob('*.nbi'))"
    folder, file = printed("-c", program, cwd=tmp_path, PYTHONPATH=str(installed)).split()
    assert folder == str(installed / "crenel" / "anonymity" / "compiled" / "code")
    assert Path(file).read_text(encoding="utf-8").startswith("+")
    program = "from crenel.operators.digests import code_version; print(code_version())"
    assert printed("-c", program, cwd=tmp_path, PYTHONPATH=str(installed)).strip() == code_version()


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ((3, 12, 0), "crenel: the command needs Flink: install crenel with its extra 'flink'\n"),
        ((3, 13, 0), "crenel: the command needs Flink, and Flink needs Python 3.12 or older\n"),
    ],
)
def test_the_command_without_flink_names_the_remedy_in_one_line(python: tuple[int, ...], message: str) -> None:
    program = "import sys; sys.modules['pyflink'] = None; from crenel.jobs.cli.main import main; "
    program += f"sys.version_info = {python}; main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def files(folder: Path) -> set[str]:
    """Return all files below a folder, also behind links."""
    return {
        Path(parent, name).relative_to(folder).as_posix()
        for parent, _, names in os.walk(folder, followlinks=True)
        for name in names
    }


def built(kind: str, sources: Path, target: Path) -> str:
    """Build a distribution and return its file name."""
    return printed("-c", BUILD, kind, str(target), cwd=sources).splitlines()[-1]


def printed(*arguments: str, cwd: Path, **variables: str) -> str:
    """Return the output of Python in a folder."""
    command, environment = [sys.executable, *arguments], {**os.environ, **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
