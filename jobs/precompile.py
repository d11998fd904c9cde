"""Compile all code ahead of its first use: ``python -m crenel.jobs.precompile``.

With an up-to-date cache, the run takes a second. With the path of a wheel, the wheel's own sources are compiled for
most processors of this family instead, and a wheel for this platform is written beside it, which holds the result.
"""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from importlib import import_module
from importlib.metadata import distribution
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.algorithms import precompile as core
from crenel.anonymity.compiled.folders import PACKAGED
from crenel.evidence.attack import search
from crenel.jobs.formats.builtin import FORMATS
from crenel.operators.encode import packed_arrays

_PROCESSORS = {
    "x86_64": (
        "x86-64-v3",
        "avx avx2 bmi bmi2 crc32 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave",
    ),
    "aarch64": ("generic", "neon"),
}
"""By family, the processor for which a wheel's code is compiled, and the features that it needs."""

_CODE = f"crenel/anonymity/compiled/{PACKAGED.name}"
"""The folder of compiled code in a wheel."""

_RARER_COLLECTIONS = 100_000
"""Objects between two garbage collections: a compiler makes millions, and keeps most of them."""


def main(wheels: list[str]) -> None:
    """Compile the code of this installation, or that of wheels."""
    for wheel in wheels:
        print(add_compiled(Path(wheel)))
    if not wheels:
        compile_all()


def compile_all() -> None:
    """Compile all algorithms, noise, regions, readers of records and searches, in two processes."""
    with ProcessPoolExecutor(2, get_context("spawn"), gc.set_threshold, (_RARER_COLLECTIONS,)) as pool:
        for done in [pool.submit(task, **arguments) for task, arguments in _tasks()]:
            done.result()


def _tasks() -> Iterator[tuple[Callable[..., None], dict[str, Any]]]:
    """Yield functions with arguments, the longest first."""
    import_module("crenel.anonymity.builtin")
    known = known_algorithms()
    yield from ((core.algorithm, {"name": name, "lasting": True}) for name in known if known[name].lasting)
    yield from ((core.algorithm, {"name": name}) for name in known)
    readers = (kind.precompile for kind in FORMATS)
    small = (core.noise, core.regions, search.precompile, packed_arrays.precompile, *readers)
    yield from ((task, {}) for task in small)


def add_compiled(wheel: Path) -> Path:
    """Write a copy of a wheel, for this platform and version of Python, with compiled code; return its path.

    Raises
    ------
    SystemExit
        No features are known for this family of processors.
    """
    if platform.machine() not in _PROCESSORS:
        raise SystemExit(f"crenel: wheels hold compiled code for {' and '.join(_PROCESSORS)}, not {platform.machine()}")
    with tempfile.TemporaryDirectory() as name, ZipFile(wheel) as plain:
        sources, compiled = Path(name, "sources"), Path(name, "crenel", "compiled")
        plain.extractall(sources)
        processor, features = _PROCESSORS[platform.machine()]
        variables = {
            "PYTHONPATH": str(sources),
            "NUMBA_CACHE_DIR": name,
            "NUMBA_CPU_NAME": processor,
            "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in features.split()),
            "CRENEL_COMPILED": "",
        }
        command = [sys.executable, "-m", "crenel.jobs.precompile"]
        subprocess.run(command, env={**os.environ, **variables}, cwd=sources, check=True)
        code = {f"{_CODE}/{path.relative_to(compiled)}": path.read_bytes() for path in sorted(compiled.rglob("*.nb?"))}
        return _platform_wheel(wheel, plain, code)


def _platform_wheel(wheel: Path, plain: ZipFile, added: dict[str, bytes]) -> Path:
    """Write a wheel with further files; it fits where numba's own wheel does."""
    numbas = distribution("numba").read_text("WHEEL") or ""
    platforms = [line.rsplit("-", 1)[1] for line in numbas.splitlines() if line.startswith("Tag: ")]
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}-none"
    tagged = wheel.with_name(wheel.name.replace("py3-none-any", f"{python}-{'.'.join(platforms)}"))
    tags = "".join(f"Tag: {python}-{each}\n" for each in platforms)
    with ZipFile(tagged, "w", ZIP_DEFLATED) as made:
        recorded = []
        for name, content in [*((each, plain.read(each)) for each in plain.namelist()), *added.items()]:
            if name.endswith(".dist-info/RECORD"):
                record = name
                continue
            if name.endswith(".dist-info/WHEEL"):
                text = content.decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
                content = text.replace("Tag: py3-none-any\n", tags).encode()
            made.writestr(name, content)
            digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
            recorded.append(f"{name},sha256={digest},{len(content)}\n")
        made.writestr(record, "".join([*recorded, f"{record},,\n"]))
    return tagged


if __name__ == "__main__":
    main(sys.argv[1:])
