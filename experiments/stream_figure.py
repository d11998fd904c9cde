"""Figure of the README: some records of the demo before and after anonymization.

It runs the demo's configuration on a short stream, with releases that are small enough to be shown completely. The same
sources give the same figure.
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crenel.jobs.cli import synthetic
from crenel.jobs.config.load import load
from crenel.jobs.local.run import run
from experiments.harness import ROOT, Drawing, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = 1000
SEED = 1
K, L, DELAY = 3, 2, 40
SHOWN = 4
"""Number of releases in the figure, one per color."""

CAPTION = (
    f"conf/demo.yaml with k = {K}, l = {L} and a delay of {DELAY} records. Names are not published. "
    "Drawn by python -m experiments stream."
)

_MAX_RECORDS = 16
_OVERRIDES = (
    f"privacy={{k: {K}, l: {L}}}",
    # Releases by event time depend on the moments of watermarks; with one shard, neighbors meet.
    f"nearest.delay={{tuples: {DELAY}}}",
    "shards.count=1",
    f"seed={SEED}",
    # The line connects a published record with its original.
    "policy.reference=null",
    "policy.passthrough=[clinic, line]",
)
_GENERALIZATION = ("age_min", "age_max", "area", "education", "salary_min", "salary_max")
_RELEASED = (*_GENERALIZATION, "diagnosis", "clinic", "line")
_AUDIT = ("id", "shard", "time", "kind", "subjects", "tuples", "diversity", "loss", "in_force", "k", "l", "rate", "phi")

# Colors by Okabe and Ito, which color-blind readers can tell apart, and a lighter tint of each; letters repeat them.
_COLORS = (("#0072B2", "#E3F0F8"), ("#B25000", "#FBEBDD"), ("#00795A", "#DFF3EC"), ("#A0457B", "#F8E8F1"))
_BACKGROUND, _INK, _FAINT, _RULE = "#FFFFFF", "#1F2933", "#66727F", "#D5DBE1"

# Left edge of each column, and the height of rows and gaps, in units of 1/100 inch.
_WIDTH, _ROW, _GAP, _TOP, _MARGIN = 1080, 25, 8, 92, 24
ORIGINAL = {"line": 24, "name": 58, "age": 150, "area": 184, "education": 228, "salary": 344, "diagnosis": 400}
PUBLISHED = {"age": 622, "area": 686, "education": 752, "salary": 864, "diagnosis": 982}
_ORIGINAL_END, _PUBLISHED_START = 478, 592


@dataclass(frozen=True)
class Release:
    """One release, with its original records.

    Attributes
    ----------
    subjects : number of distinct persons, by the audit log
    generalization : published text by column: a category by its name, a number by ``NAME_min`` and ``NAME_max``
    records : rows of the stream by ``crenel.jobs.cli.synthetic.COLUMNS``, in order of arrival
    """

    subjects: int
    generalization: Mapping[str, str]
    records: tuple[Mapping[str, str], ...]


def releases_of(folder: Path) -> list[Release]:
    """Run the demo's configuration in an empty folder, and return the releases to show, in their order.

    The releases are consecutive, and their total loss is the minimum of all such series that fit into the figure.
    """
    stream = folder / "stream.csv"
    synthetic.write(stream, ROWS, SEED)
    os.environ["CRENEL_DEMO_INPUT"], os.environ["CRENEL_DEMO_OUTPUT"] = str(stream), str(folder)
    run(load(ROOT / "conf" / "demo.yaml", _OVERRIDES), rows=ROWS)
    records = {row["line"]: row for row in _read([stream], synthetic.COLUMNS)}
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in _read(sorted((folder / "released").rglob("part-*")), _RELEASED):
        lines.setdefault(tuple(row[name] for name in _GENERALIZATION), []).append(row["line"])
    found: list[tuple[float, Release | None]] = []
    for row in _read(sorted((folder / "audit").rglob("part-*")), (*_AUDIT, *_GENERALIZATION)):
        generalization = {name: row[name] for name in _GENERALIZATION}
        members = lines[tuple(generalization.values())]
        # A reused generalization also has the rows of later releases, which cannot be told apart here.
        whole = row["kind"] != "reused" and len(members) == int(row["tuples"])
        originals = tuple(records[line] for line in sorted(members, key=int))
        found.append((float(row["loss"]), Release(int(row["subjects"]), generalization, originals) if whole else None))
    return min(_series(found))[2]


def _series(found: Sequence[tuple[float, Release | None]]) -> list[tuple[float, int, list[Release]]]:
    """Return loss, index and releases of each series that fits into the figure."""
    series = []
    for start in range(len(found) - SHOWN + 1):
        part = found[start : start + SHOWN]
        shown = [release for _, release in part if release is not None]
        if len(shown) == SHOWN and sum(len(release.records) for release in shown) <= _MAX_RECORDS:
            series.append((sum(loss for loss, _ in part), start, shown))
    return series


def _read(paths: Sequence[Path], columns: Sequence[str]) -> list[dict[str, str]]:
    rows = []
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            rows += [dict(zip(columns, values, strict=True)) for values in csv.reader(file)]
    return rows


def results() -> Iterator[Table | Drawing]:
    """Yield the figure."""
    with tempfile.TemporaryDirectory(prefix="crenel-stream-") as folder:
        releases = releases_of(Path(folder))
    metadata = (("Title", "A stream before and after anonymization"), ("Description", _description(releases)))
    yield Drawing("stream", lambda: figure(releases), metadata)


def figure(releases: Sequence[Release]) -> Figure:
    """Return the figure: records in order of arrival on the left, and by release on the right.

    Each text of a record has an identifier: ``original`` or ``published``, its row, and its column.

    Parameters
    ----------
    releases : in their order, four at most; their records need not be adjacent in the stream
    """
    from matplotlib.figure import Figure

    arrived = sorted(
        (int(record["line"]), number, i) for number, r in enumerate(releases) for i, record in enumerate(r.records)
    )
    published = [(number, i) for number, release in enumerate(releases) for i in range(len(release.records))]
    height = _TOP + len(published) * _ROW + (len(releases) - 1) * _GAP + 56
    made = Figure(figsize=(_WIDTH / 100, height / 100), facecolor=_BACKGROUND)
    panel = made.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(height, 0))
    panel.axis("off")
    _headings(panel, min(release.subjects for release in releases), height)
    spread = (len(releases) - 1) * _GAP / len(published)  # on the left, the gaps of the right are spread evenly
    row_of = {(number, i): row for row, (_, number, i) in enumerate(arrived)}
    for row, (number, i) in enumerate(published):
        y = _TOP + (row + 0.5) * _ROW + number * _GAP
        if i == 0:
            _band(panel, number, y - _ROW / 2, len(releases[number].records) * _ROW)
        start = row_of[number, i]
        _thread(panel, number, _TOP + start * (_ROW + spread) + _ROW / 2, y)
        _published(panel, row, releases[number], i, y)
    for row, (_, number, i) in enumerate(arrived):
        _original(panel, row, number, releases[number].records[i], _TOP + row * (_ROW + spread) + _ROW / 2)
    _text(panel, _MARGIN, height - 24, CAPTION, _FAINT, size=8)
    return made


def _text(panel: Any, x: float, y: float, text: str, color: str = _INK, *, size: float = 8.5, **how: Any) -> None:
    # A dollar sign would begin a formula.
    panel.text(x, y, text.replace("$", r"\$"), color=color, fontsize=size, va="center", **how)


def _headings(panel: Any, fewest: int, height: int) -> None:
    _text(panel, _MARGIN, 32, "Before", size=12, weight="bold")
    _text(panel, _ORIGINAL_END, 34, "records in order of arrival", _FAINT, ha="right")
    _text(panel, _PUBLISHED_START, 32, "After", size=12, weight="bold")
    _text(panel, _WIDTH - _MARGIN, 34, f"each letter is a release of at least {fewest} persons", _FAINT, ha="right")
    for columns in (ORIGINAL, PUBLISHED):
        for name, x in columns.items():
            _text(panel, x, 68, "row" if name == "line" else name, _FAINT, size=8)
    for start, end, y in (
        (_MARGIN, _ORIGINAL_END, 81),
        (_PUBLISHED_START, _WIDTH - _MARGIN, 81),
        (_MARGIN, _WIDTH - _MARGIN, height - 42),
    ):
        panel.plot((start, end), (y, y), color=_RULE, linewidth=0.7)


def _band(panel: Any, number: int, top: float, height: float) -> None:
    """Draw the background of a release on the right, with its letter."""
    from matplotlib.patches import Rectangle

    color, tint = _COLORS[number]
    panel.add_patch(Rectangle((_PUBLISHED_START, top), _WIDTH - _MARGIN - _PUBLISHED_START, height, color=tint, lw=0))
    panel.add_patch(Rectangle((_PUBLISHED_START, top), 18, height, color=color, lw=0))
    letter = chr(ord("A") + number)
    _text(panel, _PUBLISHED_START + 9, top + height / 2, letter, _BACKGROUND, weight="bold", ha="center")


def _thread(panel: Any, number: int, start: float, end: float) -> None:
    """Draw a curve from an original record to its published form."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    first, last = _ORIGINAL_END + 22, _PUBLISHED_START
    middle = (first + last) / 2
    points = [(first, start), (middle, start), (middle, end), (last, end)]
    curve = Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
    panel.add_patch(PathPatch(curve, fill=False, edgecolor=_COLORS[number][0], linewidth=1.2, alpha=0.75))


def _original(panel: Any, row: int, number: int, record: Mapping[str, str], y: float) -> None:
    for name, x in ORIGINAL.items():
        text = _grouped(record[name]) if name == "salary" else record[name]
        _text(panel, x, y, text, _FAINT if name == "line" else _INK, gid=f"original-{row}-{name}")
    letter = chr(ord("A") + number)
    panel.plot([_ORIGINAL_END + 14], [y], "o", color=_COLORS[number][0], markersize=11)
    style: dict[str, Any] = {"size": 7.5, "weight": "bold", "ha": "center", "gid": f"original-{row}-letter"}
    _text(panel, _ORIGINAL_END + 14, y, letter, _BACKGROUND, **style)


def _published(panel: Any, row: int, release: Release, record: int, y: float) -> None:
    values = release.generalization
    for name, x in PUBLISHED.items():
        if name == "diagnosis":
            text = release.records[record][name]
        elif name in values:
            text = values[name]
        else:
            low, high = values[f"{name}_min"], values[f"{name}_max"]
            text = _grouped(low) if low == high else f"{_grouped(low)} to {_grouped(high)}"
        _text(panel, x, y, text, gid=f"published-{row}-{name}")


def _grouped(number: str) -> str:
    return f"{int(number):,}"


def _description(releases: Sequence[Release]) -> str:
    counts = [f"{chr(ord('A') + i)}: {len(r.records)} records of {r.subjects} persons" for i, r in enumerate(releases)]
    return (
        "Left: visits of persons to clinics with name, age, area, education, salary and diagnosis. Right: the same "
        "records without names, with intervals for numbers and broader groups for area and education, equal within "
        f"each release. Releases {', '.join(counts)}."
    )
