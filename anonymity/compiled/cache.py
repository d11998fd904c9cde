"""Location of the code that numba compiles for Crenel.

The cache key is the content of the sources, not their path: a second clone, a wheel and an image of the same sources
compile nothing. A module's key covers its source and every Crenel module that it imports, also indirectly. A change in
one algorithm thus keeps the compiled code of the others. (Numba alone checks only the file of the function itself, not
the functions that it calls. Old code could then continue to make releases after an upgrade.)
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import Path as ZipPath
from zipfile import ZipFile

import numba
import numpy as np
from numba.core import caching, config

from crenel.anonymity.compiled.folders import cached, precompiled_dir

_ROOT = Path(__file__).resolve().parents[2]
"""The folder that contains the packages: the checkout, or ``crenel`` where it is installed, possibly in an archive."""
_ARCHIVE = next((ZipFile(above) for above in _ROOT.parents if above.is_file()), None)
"""The zip file from which Python imports this module, as by Flink's ``-pyfs``; None for a folder."""

_OURS = ("jobs", "evidence", "operators", "anonymity", "state", "tests")
_IMPORT = re.compile(r"^ *(?:from +([\w.]+) +import +(\([^)]*\)|[^\n]+)|import +([\w.]+))", re.MULTILINE)


@cache
def digest(module: Path) -> str:
    """Return a hash of a module's source and of all Crenel sources that it imports, directly or indirectly."""
    seen = {module, Path(__file__).resolve().with_name("reference.py")}  # decides how code reads its arguments
    waiting = [module]
    while waiting:
        for imported in _imports(waiting.pop()) - seen:
            seen.add(imported)
            waiting.append(imported)
    # Compiled code calls nothing of numpy itself. Its types are stored by names, which a major version may change.
    versions = f"{numba.__version__} {np.__version__.partition('.')[0]}"
    content = hashlib.blake2b(versions.encode(), digest_size=12)
    for text in sorted(_source(path).read_bytes() for path in seen):
        content.update(hashlib.blake2b(text).digest())
    return content.hexdigest()


@cache
def _imports(module: Path) -> frozenset[Path]:
    files: set[Path] = set()
    for package, names, alone in _IMPORT.findall(_source(module).read_text(encoding="utf-8")):
        name = package or alone
        # A name imported from a package may be a module of it.
        parts = [part.split(" as ")[0].strip() for part in names.strip("()").split(",")]
        for path in (name, *(f"{name}.{part}" for part in parts if part)):
            path = path.removeprefix("crenel.")
            if path.partition(".")[0] not in _OURS:
                continue
            base = _ROOT / path.replace(".", "/")
            files.update(file for file in (base.with_suffix(".py"), base / "__init__.py") if _source(file).is_file())
    return frozenset(files)


def _source(file: Path) -> Path | ZipPath:
    """Return a file in a form that can be read, also from an archive."""
    if _ARCHIVE is None or not file.is_relative_to(str(_ARCHIVE.filename)):
        return file
    return ZipPath(_ARCHIVE, file.relative_to(str(_ARCHIVE.filename)).as_posix())


class ByContent(caching._CacheLocator):
    """Cache locator for numba, keyed by content."""

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


class Precompiled(ByContent):
    """Cache locator for code compiled ahead of time."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Precompiled | None:
        folder = precompiled_dir()
        return None if folder is None else cls(py_func, py_file, folder)


class _LocalCode(caching.CompileResultCacheImpl):
    """Code compiled on this machine."""

    _locator_classes: Any = (ByContent,)

    def __init__(self, function: Any) -> None:
        # Locators of the user (NUMBA_CACHE_LOCATOR_CLASSES, from numba 0.62 on) are for functions of others.
        settings: Any = config
        of_user = getattr(settings, "CACHE_LOCATOR_CLASSES", "")
        settings.CACHE_LOCATOR_CLASSES = ""
        try:
            super().__init__(function)  # type: ignore[no-untyped-call]
        finally:
            settings.CACHE_LOCATOR_CLASSES = of_user


class _PrecompiledCode(_LocalCode):
    """Code compiled ahead of time."""

    _locator_classes = (Precompiled,)


class LocalCache(caching.FunctionCache):
    """Numba's cache of a function, keyed by content, for the code compiled on this machine."""

    _impl_class = _LocalCode


class _PrecompiledLayer(caching.FunctionCache):
    """Numba's cache of a function, keyed by content, for code compiled ahead of time.

    Unlike code compiled on this machine, it may be for another processor, all of whose features this one has.
    """

    _impl_class = _PrecompiledCode

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        own = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        stored: Any = self._cache_file._load_index()
        fitting = (key for key in stored if (key[0], key[2]) == (sig, own[2]) and _runs(key[1], own[1]))
        return own if own in stored else next(fitting, own)


def _runs(code: tuple[str, str, str], host: tuple[str, str, str]) -> bool:
    """Return whether code for a processor runs on another; each is a platform, a name and features, as "+avx,-xop"."""
    needed, present = ({each for each in of[2].split(",") if each.startswith("+")} for of in (code, host))
    return code[0] == host[0] and bool(needed) and needed <= present


class PrecompiledCache:
    """A cache of a function with a read-only layer of code compiled ahead of time, which takes precedence.

    Parameters
    ----------
    function : a Crenel function
    kept : the cache of code compiled on this machine
    """

    def __init__(self, function: Any, kept: Any) -> None:
        self._precompiled: Any = _PrecompiledLayer(function)  # type: ignore[no-untyped-call]
        self._kept = kept

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        overload = self._precompiled.load_overload(sig, target_context)
        return self._kept.load_overload(sig, target_context) if overload is None else overload

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)
