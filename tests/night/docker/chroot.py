"""Builds the tree of an image without Docker, by the Dockerfile's own steps, in folders that are roots of processes.

It knows the instructions that our Dockerfile has, and fails at any other. It needs root.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import string
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from dockerfile_parse import DockerfileParser
from pathspec import PathSpec

_OUTSIDE = ("/etc/resolv.conf", "/etc/hosts")
_OF_PACKAGES = ("/etc/pip.conf", "/etc/ssl/certs", "/etc/apt/apt.conf.d")
"""How this machine reaches package registries, where that takes more than the network."""

_VARIABLES = ("PIP_", "SSL_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_SHELL = ("/bin/sh", "-c")


@dataclass(frozen=True)
class Root:
    """A folder that is the root of processes, with what an image says of these.

    Parameters
    ----------
    folder : the root
    env : environment variables of every process
    user : user and group as numbers, ``9999:9999``
    workdir : the folder that processes start in
    shell : what commands are given to
    """

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = "0:0"
    workdir: str = "/"
    shell: Sequence[str] = _SHELL

    def run(self, command: str, *, building: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of the shell in there, with processes and mounts of its own; all of them end with it.

        Parameters
        ----------
        building : hand in how this machine reaches package registries
        options : for ``subprocess.run``
        """
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **self.env}
        outside = _OUTSIDE
        if building:
            env |= {name: value for name, value in os.environ.items() if name.upper().startswith(_VARIABLES)}
            outside += _OF_PACKAGES
        # A process has no network but its own: nothing is fetched at a start, and no port is in use.
        lines = [
            "set -e",
            *([] if building else ["ip link set lo up"]),
            f"mount -t proc proc {shlex.quote(str(self.folder / 'proc'))}",
        ]
        for path in filter(os.path.exists, outside):
            inside = self.folder / path[1:]
            if inside.is_symlink() or not inside.exists():
                inside.unlink(missing_ok=True)
                inside.mkdir(parents=True) if os.path.isdir(path) else inside.touch()
            lines.append(f"mount --bind {path} {shlex.quote(str(inside))}")
        inner = ["env", "-i", *(f"{name}={value}" for name, value in ({"HOME": self._home()} | env).items())]
        inner += [*self.shell, f"cd {shlex.quote(self.workdir)}\n{command}"]
        lines.append(shlex.join(["exec", "chroot", f"--userspec={self.user}", str(self.folder), *inner]))
        wrapped = [
            "unshare",
            *([] if building else ["--net"]),
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            "\n".join(lines),
        ]
        return subprocess.run(wrapped, text=True, stdin=subprocess.DEVNULL, **options)

    def copied(self, folder: Path) -> Root:
        """Return the same in a folder of its own."""
        subprocess.run(["cp", "-a", "--reflink=auto", str(self.folder), str(folder)], check=True)
        return replace(self, folder=folder)

    def path(self, inside: str) -> Path:
        """Return the location outside of a path inside."""
        return self.folder / os.path.join(self.workdir, inside).lstrip("/")

    def _home(self) -> str:
        for line in (self.folder / "etc" / "passwd").read_text(encoding="utf-8").splitlines():
            parts = line.split(":")
            if parts[2] == self.user.split(":")[0]:
                return parts[5]
        return "/"


def build(dockerfile: Path, context: Path, images: Mapping[str, Root], folder: Path) -> Root:
    """Do what a Dockerfile says.

    Parameters
    ----------
    context : what it copies from, but for what ``.dockerignore`` there leaves out
    images : the images that it begins with, by the name of their ``ARG``
    folder : where stages are built

    Returns
    -------
    The last stage.
    """
    stages: dict[str, Root] = {}
    now: Root | None = None
    for step in _steps(dockerfile):
        what, text = step["instruction"], step["value"]
        if what == "ARG" and now is None:
            continue
        if what == "FROM":
            image, _, name = text.partition(" AS ")
            now = images[image.strip("${}")].copied(folder / (name or "last"))
            stages[name or "last"] = now
            continue
        assert now is not None
        if what == "SHELL":
            now = replace(now, shell=json.loads(text))
        elif what == "USER":
            now = replace(now, user=text if ":" in text else f"{text}:{text}")
        elif what == "WORKDIR":
            now = replace(now, workdir=text)
            now.path(".").mkdir(parents=True, exist_ok=True)
        elif what == "ENV":
            given = (word.partition("=") for word in shlex.split(text))
            now = replace(now, env={**now.env, **{n: string.Template(v).safe_substitute(now.env) for n, _, v in given}})
        elif what == "COPY":
            _copy(text.split(), now, context, stages)
        elif what == "RUN":
            done = now.run(text, building=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1800)
            assert done.returncode == 0, f"RUN {text}\n{done.stdout[-6000:]}"
        else:
            raise NotImplementedError(f"{what} is not known here")
        stages[list(stages)[-1]] = now
    assert now is not None
    return now


def _steps(dockerfile: Path) -> Iterator[dict[str, Any]]:
    parser = DockerfileParser(fileobj=BytesIO(dockerfile.read_bytes()), env_replace=False)
    return (step for step in parser.structure if step["instruction"] != "COMMENT")


def _copy(words: list[str], to: Root, context: Path, stages: Mapping[str, Root]) -> None:
    # As Docker does: of a folder what is in it; everything belongs to root; a link stays one.
    origin = stages[words.pop(0).removeprefix("--from=")] if words[0].startswith("--from=") else None
    *sources, target = words
    for source in sources:
        into = to.path(target)
        if origin is not None:
            path = origin.path(source)
            into.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", f"{path}/.", str(into)], check=True)
            continue
        for file in of_context(context, source):
            place = into / file.relative_to(source) if source == "." else into / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(context / file, place, follow_symlinks=False)
            os.lchown(place, 0, 0)


def of_context(context: Path, source: str) -> list[Path]:
    """Return the files of the context that Docker would see at ``source``, relative to the context."""
    lines = (context / ".dockerignore").read_text(encoding="utf-8").splitlines()
    # To Docker a pattern begins at the context, and what it matches is so with all that is below.
    rooted = [re.sub(r"^(!?)(?!\*\*)(.*)", r"\1/\2", line).replace("/*", "/**", line == "*") for line in lines if line]
    ignored = PathSpec.from_lines("gitignore", rooted)
    below = (context / source).rglob("*") if (context / source).is_dir() else [context / source]
    found = (path.relative_to(context) for path in below if path.is_symlink() or path.is_file())
    files = [path for path in found if not ignored.match_file(path)]
    assert files, f"COPY {source}: there is nothing of it in the context"
    return files
