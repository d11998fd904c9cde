"""Demo: a synthetic stream through the whole job, with its results."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.hierarchy import Hierarchy
from crenel.anonymity.model.policy import Policy
from crenel.jobs.cli import synthetic
from crenel.jobs.cli.cli_common import grid, indent, table
from crenel.jobs.config.load import Config, load
from crenel.jobs.local.run import run
from crenel.jobs.local.summary import RunSummary

_SHOWN = 4  # rows before and after

REPORT = "report.html"
"""Name of the report in the demo's folder."""


@dataclass(frozen=True)
class Ended:
    """A finished demo: the file name of its configuration, the configuration, and the summary."""

    name: str
    config: Config
    summary: RunSummary


def demo(folder: Path, rows: int, seed: int, console: Console) -> Ended:
    """Write a stream into ``folder``, anonymize it there, and show the results.

    Parameters
    ----------
    folder : absolute and empty, or not existing
    rows : of the stream, 0 or more
    seed : of the stream and of the job's random choices, 0 or more

    Raises
    ------
    ConfigError
        ``folder`` contains files or cannot be made, or the demo's configuration is not installed.
    JobError, JavaError
        As ``crenel.jobs.local.run.run`` does.
    """
    path = _find_configuration()
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(folder, ["--keep: the folder holds files already; name an empty or a new one"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "is no folder" if isinstance(error, FileExistsError | NotADirectoryError) else str(error.strerror)
        raise ConfigError(folder, [f"--keep: cannot be made: {reason}; name an empty or a new folder"]) from None
    stream = folder / "stream.csv"
    synthetic.write(stream, rows, seed)
    # The path is inside a quoted option of the statement.
    os.environ["CRENEL_DEMO_INPUT"] = str(stream).replace("'", "''")
    os.environ["CRENEL_DEMO_OUTPUT"] = str(folder)
    config = load(path, [f"seed={seed}"])
    console.print(f"{rows:,} visits of invented people to invented clinics, through {_relative(path)}", soft_wrap=True)
    summary = run(config, rows=rows)
    for part in _before_and_after(folder, config.policy):
        console.print(part)
    privacy, waits = config.privacy, config.algorithm.value_of("delay")
    delay = f"{waits.tuples} later tuples of its shard or {(waits.event_time or 0) // 3_600_000} hours"
    console.print(
        f"\nEvery release holds at least {privacy.k} people and {privacy.l} diagnoses; no visit waits longer than "
        f"{delay}."
    )
    console.print()
    indent(console, summary.as_table())
    return Ended(path.name, config, summary)


def show_files(folder: Path, console: Console) -> None:
    """List the files of the demo."""
    console.print(f"\nFiles in {folder}:", soft_wrap=True)
    contents = (
        ("stream.csv", "the input"),
        ("released", "the anonymized output"),
        ("audit", "one row per release: subjects, tuples, diversity, loss"),
        ("suppressed", "suppressed tuples: reason, shard, position, time"),
        ("rejected", "rejected rows: column, reason, time, line"),
        (REPORT, "a report on the output, for a browser"),
    )
    console.print(grid((f"  {name}", content) for name, content in contents if (folder / name).exists()))


def _find_configuration() -> Path:
    # A checkout has a link, a wheel has files; the resolved path is the one that users of a checkout know.
    path = Path(str(files("crenel.jobs"))) / "examples" / "demo.yaml"
    if not path.is_file():
        raise ConfigError(path, [f"{path}: is missing; reinstall Crenel"])
    return path.resolve()


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _before_and_after(folder: Path, policy: Policy) -> Iterator[RenderableType]:
    """Yield some published visits of one release, and visits of the input that fit them."""
    released = _read(folder / "released", _released_columns(policy))
    leading = ("id", "shard", "time", "kind", "subjects", "tuples", "diversity", "loss")
    audit = _read(folder / "audit", (*leading, "in_force", "k", "l", "sample_rate", "phi"))
    first = sorted((row for row in audit if row["kind"] in ("cluster", "split")), key=lambda row: float(row["loss"]))
    if not first:
        return
    # A typical release: neither the best nor the worst.
    chosen = first[len(first) // 2]
    ends = chosen[None]
    after = [row for row in released if list(row.values())[: len(ends)] == ends]
    before = list(islice(_fitting(folder / "stream.csv", policy, after[0]), _SHOWN))
    yield _table(
        f"\nBefore: {len(before)} visits of the input",
        ("name", "age", "area", "education", "salary", "diagnosis"),
        ([row[column] for column in ("name", "age", "area", "education", "salary", "diagnosis")] for row in before),
    )
    yield _table(
        f"\nAfter: {min(_SHOWN, len(after))} of the {len(after)} visits of one equivalence class, of "
        f"{chosen['subjects']} people or more",
        ("age", "area", "education", "salary", "diagnosis"),
        (
            [_interval(row, "age"), row["area"], row["education"], _interval(row, "salary"), row["diagnosis"]]
            for row in after[:_SHOWN]
        ),
    )


def _released_columns(policy: Policy) -> tuple[str, ...]:
    numeric = {attribute.name for attribute in policy.numeric}
    names = [attribute.name for attribute in policy.attributes]
    ends = [[f"{name}_min", f"{name}_max"] if name in numeric else [name] for name in names]
    return (*(column for columns in ends for column in columns), *policy.members)


def _read(folder: Path, columns: Sequence[str]) -> list[dict[Any, Any]]:
    rows = []
    for path in sorted(folder.rglob("part-*")):
        with path.open(encoding="utf-8", newline="") as file:
            rows += list(csv.DictReader(file, fieldnames=columns))
    return rows


def _fitting(stream: Path, policy: Policy, released: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield rows of the stream that lie inside a generalization."""
    with stream.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, fieldnames=synthetic.COLUMNS):
            numbers = all(
                row[a.name].isdecimal()
                and int(released[f"{a.name}_min"]) <= int(row[a.name]) <= int(released[f"{a.name}_max"])
                for a in policy.numeric
            )
            if numbers and all(_lies_under(a.hierarchy, row[a.name], released[a.name]) for a in policy.categorical):
                yield row


def _lies_under(tree: Hierarchy, leaf: str, label: str) -> bool:
    if leaf not in tree.labels:
        return False
    node = tree.labels.index(label)
    return bool(tree.first[node] <= tree.labels.index(leaf) <= tree.last[node])


def _interval(row: dict[str, str], name: str) -> str:
    least, most = row[f"{name}_min"], row[f"{name}_max"]
    return least if least == most else f"{least} to {most}"


def _table(title: str, columns: Sequence[str], rows: Iterator[list[str]]) -> RenderableType:
    visits = table(*columns, words=len(columns), header_style="bold")
    for row in rows:
        visits.add_row(*row)
    return Group(title, Padding(visits, (0, 0, 0, 2), expand=False))
