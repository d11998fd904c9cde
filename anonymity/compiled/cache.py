"""Where things are kept that can be made again: compiled code, and what Java needs to start quickly.

Compiled code is found by the content of the sources it was made of, wherever these lie: a second clone, a wheel and an
image of the same sources compile nothing. What a module was compiled of is itself and every module of ours that it
imports, directly or not, so a change in one algorithm leaves the code of the others as it is. (Numba alone looks at the
file that holds a function, but not at those it calls into: old code could go on making releases after an upgrade.)
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import caching

_ROOT = Path(__file__).resolve().parents[2]
_OURS = ("jobs", "evidence", "operators", "anonymity", "state", "benchmarks", "tests")
"""Where Crenel is installed, packages of others lie beside them."""
_IMPORT = re.compile(r"^ *(?:from +([\w.]+) +import +(\([^)]*\)|[^\n]+)|import +([\w.]+))", re.MULTILINE)


def cached(name: str) -> Path | None:
    """A folder of our own: below NUMBA_CACHE_DIR, XDG_CACHE_HOME, ~/.cache or a temporary folder.

    Code in it is run, so nobody else may write to it, nor have made it: it belongs to this user and has the mode 0700.
    None where there is no such folder and none can be made.
    """
    named = (os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME"), str(Path.home() / ".cache"))
    # Right in the temporary folder, where nobody can move what is another's; inside another's folder they could.
    temporary = Path(tempfile.gettempdir()) / f"crenel-{os.geteuid()}"
    for ours in (*(Path(folder) / "crenel" for folder in named if folder), temporary):
        try:
            ours.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            ours.mkdir(mode=0o700, exist_ok=True)
            if _is_private(ours) and os.access(ours, os.W_OK):
                (ours / name).mkdir(parents=True, exist_ok=True)
                return ours / name
        except OSError:
            continue
    return None


@cache
def ahead() -> Path | None:
    """The folder that ``CRENEL_COMPILED`` names, of code that was compiled ahead, as an image has it; None: none.

    It is only read. Code in it is run, so nobody but root and this user may write to it, nor exchange it for another:
    else it is left alone, with a warning.
    """
    named = os.environ.get("CRENEL_COMPILED")
    if not named:
        return None
    folder = Path(named).resolve()
    if folder.is_dir() and all(_is_guarded(each) for each in (folder, *folder.parents)):
        return folder
    warnings.warn(
        f"CRENEL_COMPILED: {named} is not read; it is no folder, or others than root and this user may write to it",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _is_guarded(folder: Path) -> bool:
    """Whether only root and this user may write to a folder; in a sticky one others cannot touch what is theirs."""
    found = folder.stat()
    return found.st_uid in (0, os.geteuid()) and (not found.st_mode & 0o022 or bool(found.st_mode & stat.S_ISVTX))


def _is_private(folder: Path) -> bool:
    """Whether a folder is ours alone; one that others could only read is closed to them first."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    if found.st_mode & 0o022:  # somebody may have put code there
        return False
    if found.st_mode & 0o077:
        folder.chmod(0o700)
    return True


@cache
def digest(module: Path) -> str:
    """A hash of a module's source and of all sources that it imports, directly or not, from the folder of ours."""
    seen = {module}
    waiting = [module]
    while waiting:
        for found in _imports(waiting.pop()) - seen:
            seen.add(found)
            waiting.append(found)
    content = hashlib.blake2b(f"{numba.__version__} {np.__version__}".encode(), digest_size=12)
    for text in sorted(path.read_bytes() for path in seen):
        content.update(hashlib.blake2b(text).digest())
    return content.hexdigest()


@cache
def _imports(module: Path) -> frozenset[Path]:
    found: set[Path] = set()
    for package, names, alone in _IMPORT.findall(module.read_text(encoding="utf-8")):
        name = package or alone
        if name.partition(".")[0] not in _OURS:
            continue
        # What is imported from a package may be a module of it.
        parts = [part.split(" as ")[0].strip() for part in names.strip("()").split(",")]
        for path in (name, *(f"{name}.{part}" for part in parts if part)):
            base = _ROOT / path.replace(".", "/")
            found.update(file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file())
    return frozenset(found)


class ByContent(caching._CacheLocator):
    """Tells numba where the code of a function of ours is kept."""

    def __init__(self, function: Any, file: str, folder: Path) -> None:
        self._py_file = file  # numba names it in warnings
        self._line = function.__code__.co_firstlineno
        self._stamp = digest(Path(file).resolve())
        self._folder = folder

    def get_cache_path(self) -> str:
        return str(self._folder / self._stamp)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> ByContent | None:
        folder = cached("compiled")
        return None if folder is None else cls(py_func, py_file, folder)


class Ahead(ByContent):
    """Tells numba where code of a function of ours is that was compiled ahead."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Ahead | None:
        folder = ahead()
        return None if folder is None else cls(py_func, py_file, folder)


class AheadCache:
    """Numba's cache of a function whose code was compiled ahead, which is only read, before what is kept here.

    Parameters
    ----------
    function : of ours, while ``Ahead`` is numba's locator
    kept : numba's cache of what is compiled here
    """

    def __init__(self, function: Any, kept: Any) -> None:
        self._ahead: Any = caching.FunctionCache(function)
        self._kept = kept

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._ahead.load_overload(sig, target_context)
        return self._kept.load_overload(sig, target_context) if found is None else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)
