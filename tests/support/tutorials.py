"""Pages as tests: the code blocks of a page run in order, and print the output that the page shows.

- ``bash`` runs in the folder of the page. Variables last from block to block.
- ``python`` runs in one process for the whole page. If its first line is the comment ``# NAME.py``, it becomes that
  file instead, and ``yaml`` becomes a file in the same way. ``yaml`` that begins with ``# from PATH`` shows lines of a
  file of the repository.
- ``text`` is the output of the block before it. ``...`` stands for any text.
- ``sh`` prepares the machine of a reader, and does not run.

A command fails its page unless it ends with code 0, or with the code that a comment ``# exit code N`` states.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import host
from tests.support.launch import ROOT, TIMEOUT, Host, environment

_BLOCK = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w.-]+\.(?:py|yaml))\n")
_SHOWN = re.compile(r"# from ([\w./-]+)\n")
_CODE = re.compile(r"# exit code (\d+)")
_SESSION = """
import contextlib, io, json, sys
names = {"__name__": "__main__"}
for block in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block, "page", "exec"), names)
    print(json.dumps(printed.getvalue()))
"""
_CRENEL = f"""#!{sys.executable}
import sys
from tests.support.tutorials import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Block:
    """A code block of a page, with the number of its first line."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in _BLOCK.finditer(text)]


def require(shown: str, printed: str, place: str) -> None:
    """Require that an output is the shown one, without regard to spaces at the ends of lines."""
    pattern = "(?s:.*?)".join(re.escape(part) for part in _trimmed(shown).split("..."))
    assert re.fullmatch(pattern, _trimmed(printed)), f"{place} shows\n{shown}\nand not\n{printed}"


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def run(page: Path, folder: Path, process: Host | None = None, commands: Mapping[str, str] | None = None) -> None:
    """Run the blocks of a page in a folder, and compare what they print.

    Parameters
    ----------
    process : runs ``crenel``; a page without it calls no ``crenel``
    commands : further programs, as text by name
    """
    programs = folder / ".bin"
    programs.mkdir()
    for name, text in {"crenel": _CRENEL, **(commands or {})}.items():
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {
        **environment(),
        "PATH": path,
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
        "_python_worker_execution_mode": "loopback",
    }
    if process is not None:
        variables["CRENEL_HOST"] = str(process.folder / "socket")
    found = blocks(page)
    session = outputs([block.text for block in found if _is_in_session(block)], folder, variables)
    printed: str | None = None
    for block in found:
        place = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language == "text":
            assert printed is not None, f"{place}: no block before it prints anything"
            require(block.text, printed, place)
            continue
        printed = None
        if block.language == "bash":
            printed = _bash(block.text, folder, variables, place)
        elif _is_in_session(block):
            printed = next(session)
        elif match := _FILE.match(block.text):
            (folder / match[1]).write_text(block.text[match.end() :], encoding="utf-8")
        elif match := _SHOWN.match(block.text):
            lines = (ROOT / match[1]).read_text(encoding="utf-8").splitlines()
            missing = [line for line in block.text.splitlines()[1:] if line not in lines and line.strip() != "..."]
            assert missing == [], f"{place}: {match[1]} has no such lines"
        else:
            assert block.language == "sh" or block.language[:1] == "{", f"{place}: {block.language!r} is not tested"


def _is_in_session(block: Block) -> bool:
    return block.language == "python" and not _FILE.match(block.text)


def outputs(texts: list[str], folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the outputs of blocks that run in one process."""
    if texts:
        done = subprocess.run(
            [sys.executable, "-c", _SESSION],
            cwd=folder,
            env=variables or environment(),
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield from map(json.loads, done.stdout.splitlines())


def _bash(text: str, folder: Path, variables: Mapping[str, str], place: str) -> str:
    """Return what commands print to both streams; their variables are kept in a file of the folder."""
    kept = folder / ".bin" / "variables"
    kept.touch()
    done = subprocess.run(
        ["bash", "-eu", "-c", f". '{kept}'\n{text}\nexport -p >'{kept}'"],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    wanted = _CODE.search(text)
    assert done.returncode == (int(wanted[1]) if wanted else 0), f"{place} ends with {done.returncode}\n{done.stdout}"
    return done.stdout


def main(arguments: list[str]) -> int:
    """Run ``crenel`` in the process of many jobs, and return its exit code."""
    place = Path(os.environ["CRENEL_HOST"])
    done = host.ask(place, "crenel", *arguments, **os.environ, CRENEL_HOST_FOLDER=os.getcwd())
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode
