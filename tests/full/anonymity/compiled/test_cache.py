"""Cache of compiled code: found by its sources, and only in folders that no other user can write."""

from __future__ import annotations

import ast
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from crenel.anonymity.compiled import cache, folders
from crenel.anonymity.compiled.cache import digest
from crenel.anonymity.compiled.folders import cached
from tests.support.launch import ROOT, environment

PACKAGES = ("anonymity", "state")
NOBODY = 65534


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    forget()
    yield
    forget()


def forget() -> None:
    digest.cache_clear()
    folders.precompiled_dir.cache_clear()
    cache._imports.cache_clear()


def copied(root: Path) -> Path:
    """Our packages once more, in a new folder."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def digests(root: Path, monkeypatch: pytest.MonkeyPatch, among: Iterable[Path] | None = None) -> dict[str, str]:
    """Return the digest of each module of a folder, as if that were the project; ``among``: None stands for all."""
    forget()
    monkeypatch.setattr(cache, "_ROOT", root)
    modules = root.rglob("*.py") if among is None else among
    return {str(path.relative_to(root)): digest(path) for path in sorted(modules)}


def changed(
    root: Path, module: Path, monkeypatch: pytest.MonkeyPatch, among: Collection[Path] | None = None
) -> set[str]:
    """Return the modules whose digest changes with one more line in this one, which is taken away again."""
    before, text = digests(root, monkeypatch, among), module.read_text(encoding="utf-8")
    module.write_text(text + "\n_NEW = 1\n", encoding="utf-8")
    after = digests(root, monkeypatch, among)
    module.write_text(text, encoding="utf-8")
    return {name for name, was in before.items() if after[name] != was}


def test_a_clone_of_the_same_sources_has_the_same_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = digest(ROOT / "anonymity" / "algorithms" / "castle" / "procedures.py")
    one = digests(copied(tmp_path / "one"), monkeypatch)
    assert one == digests(copied(tmp_path / "elsewhere" / "two"), monkeypatch)
    assert one["anonymity/algorithms/castle/procedures.py"] == here


def test_a_minor_version_of_numpy_keeps_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    module, major = ROOT / "anonymity" / "algorithms" / "castle" / "procedures.py", np.__version__.partition(".")[0]
    before = digest(module)
    for version, is_kept in ((f"{major}.999.0", True), ("999.0.0", False)):
        forget()
        monkeypatch.setattr(np, "__version__", version)
        assert (digest(module) == before) == is_kept


def test_a_change_changes_a_module_and_those_that_import_it_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "ours/__init__.py": "",
        "ours/base.py": "import numpy as np\n",
        "ours/direct.py": "from ours.base import thing\n",
        "ours/of_package.py": "from ours import (\n    base,\n    other as renamed,\n)\n",
        "ours/by_name.py": "import ours.base\n",
        "ours/within.py": "def late():\n    from ours.base import thing\n    return thing\n",
        "ours/indirect.py": "from ours import direct\n",
        "ours/other.py": "import os\n",
        "ours/below/__init__.py": "from ours.indirect import thing\n",
        "ours/below/apart.py": "word = 'from ours.base import'\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    importing = {f"ours/{name}.py" for name in ("base", "direct", "of_package", "by_name", "within", "indirect")}
    monkeypatch.setattr(cache, "_OURS", ("ours",))
    found = changed(tmp_path, tmp_path / "ours" / "base.py", monkeypatch)
    assert found == importing | {"ours/below/__init__.py"}
    assert changed(tmp_path, tmp_path / "ours" / "other.py", monkeypatch) == {"ours/other.py", "ours/of_package.py"}


def test_packages_of_others_that_lie_beside_ours_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in an environment that Crenel is installed in: numba imports by relative names, and has thousands of modules.
    root = copied(tmp_path / "site-packages")
    alone = digests(root, monkeypatch)
    (root / "numba").mkdir()
    (root / "numba" / "__init__.py").write_text("from . import config\nfrom .core import types\n", encoding="utf-8")
    beside = digests(root, monkeypatch)
    assert {name: value for name, value in beside.items() if name in alone} == alone


@pytest.mark.parametrize(("algorithm", "other"), [("suhdsa", "castle"), ("castle", "suhdsa")])
def test_a_change_in_one_algorithm_compiles_nothing_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, other: str
) -> None:
    root = copied(tmp_path / "copy")
    compiled = {
        path
        for path in (root / "anonymity" / "algorithms" / other).rglob("*.py")
        if "\n@entry\n" in path.read_text(encoding="utf-8")
    }
    assert compiled
    for module in sorted((root / "anonymity" / "algorithms" / algorithm).rglob("*.py")):
        found = changed(root, module, monkeypatch, among={module, *compiled})
        assert found == {str(module.relative_to(root))}


def test_every_import_of_ours_is_seen() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            assert cache._imports(path) >= imported(path), path


def imported(module: Path) -> set[Path]:
    """Return the imports that Python itself finds."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import, which is not looked for"
            names.update([str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)])
    bases = [ROOT / name.replace(".", "/") for name in names]
    files = {file for base in bases for file in (base.with_suffix(".py"), base / "__init__.py")}
    return {file.resolve() for file in files if file.is_file()}  # crenel/ holds links


@pytest.fixture
def locations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders that are looked at, in their order, none of them there yet."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    below = [tmp_path / name / "crenel" for name in ("numba", "xdg", "home/.cache")]
    return [*below, tmp_path / "tmp" / f"crenel-{os.geteuid()}"]


def test_a_folder_that_is_made_is_ours_alone(locations: list[Path]) -> None:
    umask = os.umask(0)
    try:
        assert cached("compiled") == locations[0] / "compiled"
    finally:
        os.umask(umask)
    assert mode(locations[0]) == 0o700


def test_a_folder_that_others_could_read_is_closed(locations: list[Path]) -> None:
    locations[0].mkdir(parents=True)
    locations[0].chmod(0o755)
    assert cached("compiled") == locations[0] / "compiled"
    assert mode(locations[0]) == 0o700


def for_all_to_write(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def for_the_group_to_write(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o770)


def a_link(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir(parents=True, mode=0o700, exist_ok=True)
    folder.symlink_to(elsewhere)


def a_file(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.touch(0o700)


def another_users(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o700)
    try:
        os.chown(folder, NOBODY, NOBODY)
    except PermissionError:  # only root may: then become another user
        folder.chmod(0o770)


@pytest.mark.parametrize("made", [for_all_to_write, for_the_group_to_write, a_link, a_file, another_users])
def test_a_folder_that_is_not_ours_alone_is_passed_over(locations: list[Path], made: object) -> None:
    assert callable(made)
    for place, following in zip(locations, [*locations[1:], None], strict=True):
        made(place)
        assert cached("compiled") == (following and following / "compiled")
        if following is not None:
            shutil.rmtree(following)
        assert place.is_file() or not any(place.iterdir())


@pytest.mark.parametrize("made", [for_all_to_write, for_the_group_to_write, another_users])
@pytest.mark.parametrize("above", [0, 1])
def test_a_folder_below_one_that_others_may_write_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locations: list[Path], made: object, above: int
) -> None:
    # A user who may write there renames ours, and puts another in its place.
    assert callable(made)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "shared" / "numba"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared" / "xdg"))
    made(tmp_path / "shared" if above else tmp_path / "shared" / "numba")
    if not above:
        made(tmp_path / "shared" / "xdg")
    assert cached("compiled") == locations[2] / "compiled"
    assert not any((tmp_path / "shared").rglob("crenel"))


def test_nothing_is_kept_where_every_place_lies_in_others_reach(tmp_path: Path, locations: list[Path]) -> None:
    tmp_path.chmod(0o777)
    assert cached("compiled") is None


def test_a_sticky_folder_above_does_for_what_is_ours(tmp_path: Path, locations: list[Path]) -> None:
    tmp_path.chmod(0o1777)
    assert cached("compiled") == locations[0] / "compiled"


def test_a_link_above_is_followed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locations: list[Path]) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "link"))
    assert cached("compiled") == tmp_path / "real" / "crenel" / "compiled"


def test_every_folder_that_is_made_on_the_way_is_ours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locations: list[Path]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "a" / "b"))
    umask = os.umask(0)
    try:
        assert cached("compiled") == tmp_path / "a" / "b" / "crenel" / "compiled"
    finally:
        os.umask(umask)
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


TINY = """
from crenel.anonymity.compiled.folders import cached
from crenel.anonymity.compiled.jit import entry

@entry
def twice(number):
    return 2 * number

found = twice(21)
misses, hits = (sum(each.values()) for each in (twice.stats.cache_misses, twice.stats.cache_hits))
print(found, misses, hits, cached("compiled"))
"""


def tiny(script: Path, **variables: str) -> list[str]:
    """Return the output of a process that compiles a small function."""
    script.write_text(TINY, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_code_is_compiled_once_wherever_its_source_lies(tmp_path: Path) -> None:
    # The locators that a user names are for functions of others.
    place = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CACHE_LOCATOR_CLASSES": "InTreeCacheLocator"}
    folder = str(tmp_path / "cache" / "crenel" / "compiled")
    for number, (misses, hits) in enumerate([("1", "0"), ("0", "1")]):
        script = tmp_path / str(number) / "tiny.py"
        script.parent.mkdir()
        assert tiny(script, **place) == ["42", misses, hits, folder]


def test_without_a_folder_of_our_own_code_is_compiled_and_not_kept(tmp_path: Path) -> None:
    locations = {"NUMBA_CACHE_DIR": "numba", "XDG_CACHE_HOME": "xdg", "HOME": "home", "TMPDIR": "tmp"}
    for name in ("numba/crenel", "xdg/crenel", "home/.cache/crenel", f"tmp/crenel-{os.geteuid()}"):
        for_all_to_write(tmp_path / name)
    variables = {name: str(tmp_path / place) for name, place in locations.items()}
    assert tiny(tmp_path / "tiny.py", **variables) == ["42", "1", "0", "None"]
    assert not list(tmp_path.rglob("*.nb?"))


def test_code_that_was_compiled_ahead_is_only_read(tmp_path: Path) -> None:
    script = tmp_path / "tiny.py"
    made, here = tmp_path / "made", tmp_path / "here"
    tiny(script, NUMBA_CACHE_DIR=str(made))
    shipped = made / "crenel" / "compiled"
    before = sorted(shipped.rglob("*"))
    assert before
    variables = {"CRENEL_COMPILED": str(shipped), "NUMBA_CACHE_DIR": str(here)}
    assert tiny(script, **variables)[:3] == ["42", "0", "1"]
    assert not list(here.rglob("*.nb?"))
    # For another processor there is none: it is compiled here, and kept here.
    assert tiny(script, **variables, NUMBA_CPU_NAME="generic")[:3] == ["42", "1", "0"]
    assert tiny(script, **variables, NUMBA_CPU_NAME="generic")[:3] == ["42", "0", "1"]
    assert list(here.rglob("*.nbc"))
    assert sorted(shipped.rglob("*")) == before


def test_code_that_was_compiled_ahead_runs_on_processors_with_more_features_and_on_no_others(tmp_path: Path) -> None:
    script, made, here = tmp_path / "tiny.py", tmp_path / "made", tmp_path / "here"
    processor = "x86-64-v3" if platform.machine() == "x86_64" else "generic"
    tiny(script, NUMBA_CACHE_DIR=str(made), NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES="+sse2,-avx,+ssse3")
    variables = {"CRENEL_COMPILED": str(made / "crenel" / "compiled"), "NUMBA_CACHE_DIR": str(here)}
    assert tiny(script, **variables, NUMBA_CPU_FEATURES="+ssse3,+avx,+sse2")[:3] == ["42", "0", "1"]
    assert tiny(script, **variables, NUMBA_CPU_FEATURES="+avx,+sse2,-ssse3")[:3] == ["42", "1", "0"]


def test_code_that_others_could_have_written_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "parent" / "compiled"
    folder.mkdir(parents=True)
    monkeypatch.setenv("CRENEL_COMPILED", str(folder))
    assert looked_ahead() == folder
    for mode_of, bits in ((folder, 0o777), (folder, 0o775), (folder.parent, 0o777)):
        mode_of.chmod(bits)
        with pytest.warns(RuntimeWarning, match=r"CRENEL_COMPILED: .* others than root"):
            assert looked_ahead() is None
        mode_of.chmod(0o755)
    folder.parent.chmod(0o1777)  # as /tmp: others cannot exchange what is in it
    assert looked_ahead() == folder
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        with pytest.warns(RuntimeWarning, match="CRENEL_COMPILED"):
            assert looked_ahead() is None
    monkeypatch.setenv("CRENEL_COMPILED", str(tmp_path / "absent"))
    with pytest.warns(RuntimeWarning, match="is no folder"):
        assert looked_ahead() is None


def looked_ahead() -> Path | None:
    folders.precompiled_dir.cache_clear()
    return folders.precompiled_dir()


def test_a_machine_without_a_home_or_a_temporary_folder_uses_the_named_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise FileNotFoundError("no usable temporary directory")

    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    assert cached("compiled") == tmp_path.resolve() / "named" / "crenel" / "compiled"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert cached("compiled") is None
