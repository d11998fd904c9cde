"""The picture of the README: some visits of the demo's stream going in, and the same visits coming out.

``python -m benchmarks.picture`` runs the demo's configuration on a short stream, with releases small enough to be shown
whole, and writes ``docs/figures/stream.svg``. The same sources give the same picture.
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.picture_svg import Release, svg
from crenel.jobs.cli import synthetic
from crenel.jobs.config.load import load
from crenel.jobs.local.run import run

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "figures" / "stream.svg"

ROWS = 1000
SEED = 1
K, L, DELAY = 3, 2, 40
SHOWN = 4
"""Releases in the picture: as many as there are colors."""

UNDER = (
    f"conf/demo.yaml with k = {K}, l = {L} and a delay of {DELAY} visits. Names are thrown away, and who comes twice "
    "counts once. Drawn by python -m benchmarks.picture."
)

_MOST_VISITS = 16
_OVERRIDES = (
    f"privacy={{k: {K}, l: {L}}}",
    # Event time depends on when watermarks are emitted, and with it what leaves; one shard lets neighbors meet.
    f"castle.delay={{tuples: {DELAY}}}",
    "shards.count=1",
    f"seed={SEED}",
    # The line tells which row of the stream a released one was.
    "policy.reference=null",
    "policy.passthrough=[clinic, line]",
)
_GENERALIZATION = ("age_min", "age_max", "area", "education", "salary_min", "salary_max")
_RELEASED = (*_GENERALIZATION, "diagnosis", "clinic", "line")
_AUDIT = ("id", "shard", "time", "kind", "subjects", "tuples", "diversity", "loss", "k", "l", "rate", "phi")


def releases_of(folder: Path) -> list[Release]:
    """Run the demo's configuration in an empty folder; the releases to show, in the order in which they left.

    They left one after the other; somebody comes twice in one of them, and among all such series of ``SHOWN`` that fit
    into the picture they lost least.
    """
    stream = folder / "stream.csv"
    synthetic.write(stream, ROWS, SEED)
    os.environ["CRENEL_DEMO_INPUT"], os.environ["CRENEL_DEMO_OUTPUT"] = str(stream), str(folder)
    run(load(ROOT / "conf" / "demo.yaml", _OVERRIDES), rows=ROWS)
    visits = {row["line"]: row for row in _read([stream], synthetic.COLUMNS)}
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in _read(sorted((folder / "released").rglob("part-*")), _RELEASED):
        lines.setdefault(tuple(row[name] for name in _GENERALIZATION), []).append(row["line"])
    found: list[tuple[float, Release | None]] = []
    for row in _read(sorted((folder / "audit").rglob("part-*")), (*_AUDIT, *_GENERALIZATION)):
        generalization = {name: row[name] for name in _GENERALIZATION}
        members = lines[tuple(generalization.values())]
        # A generalization that was handed out again has rows of later releases, too: not to be told apart here.
        whole = row["kind"] != "reused" and len(members) == int(row["tuples"])
        came = tuple(visits[line] for line in sorted(members, key=int))
        found.append((float(row["loss"]), Release(int(row["subjects"]), generalization, came) if whole else None))
    return min(_series(found))[2]


def _series(found: Sequence[tuple[float, Release | None]]) -> list[tuple[float, int, list[Release]]]:
    """Loss, place and releases of each series that can be shown."""
    series = []
    for start in range(len(found) - SHOWN + 1):
        part = found[start : start + SHOWN]
        shown = [release for _, release in part if release is not None]
        again = any(len(release.visits) > release.subjects for release in shown)
        if len(shown) == SHOWN and again and sum(len(release.visits) for release in shown) <= _MOST_VISITS:
            series.append((sum(loss for loss, _ in part), start, shown))
    return series


def _read(paths: Sequence[Path], columns: Sequence[str]) -> list[dict[str, str]]:
    rows = []
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            rows += [dict(zip(columns, values, strict=True)) for values in csv.reader(file)]
    return rows


def main() -> None:
    """Draw the picture anew."""
    with tempfile.TemporaryDirectory(prefix="crenel-picture-") as folder:
        releases = releases_of(Path(folder))
    PICTURE.write_text(svg(releases, UNDER), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
