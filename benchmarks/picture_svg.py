"""How the picture of the README looks: plain SVG, on a ground of its own, so that it suits light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

# Okabe and Ito's colors for those who see colors differently, and a lighter tint of each; letters say the same.
_COLORS = (("#0072B2", "#E3F0F8"), ("#B25000", "#FBEBDD"), ("#00795A", "#DFF3EC"), ("#A0457B", "#F8E8F1"))
_FONTS = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
_GROUND, _INK, _FAINT, _RULE = "#FFFFFF", "#1F2933", "#66727F", "#D5DBE1"

# Left edge of each column; wide enough for DejaVu Sans, the widest of the usual fonts.
_WIDTH, _ROW, _GAP, _TOP, _PAD = 1080, 25, 8, 92, 24
CAME = {"line": 24, "name": 62, "age": 152, "area": 186, "education": 228, "salary": 344, "diagnosis": 400}
LEFT = {"age": 622, "area": 686, "education": 752, "salary": 864, "diagnosis": 982}
_CAME_END, _LEFT_START = 478, 592


@dataclass(frozen=True)
class Release:
    """One release, with its visits as they came in.

    Attributes
    ----------
    subjects : distinct persons, as the audit log counts them
    generalization : published text by column: a category by its name, a number by ``NAME_min`` and ``NAME_max``
    visits : rows of the stream by ``crenel.jobs.cli.synthetic.COLUMNS``, in the order in which they came
    """

    subjects: int
    generalization: Mapping[str, str]
    visits: tuple[Mapping[str, str], ...]


def svg(releases: Sequence[Release], under: str) -> str:
    """The picture: visits on the left as they came, on the right as they left; ``under`` stands below.

    Parameters
    ----------
    releases : in the order in which they left, four at most; their visits need not lie side by side in the stream
    """
    came = sorted(
        (int(visit["line"]), number, i) for number, r in enumerate(releases) for i, visit in enumerate(r.visits)
    )
    left = [(number, i) for number, release in enumerate(releases) for i in range(len(release.visits))]
    height = _TOP + len(left) * _ROW + (len(releases) - 1) * _GAP + 56
    body = [*_headings(min(release.subjects for release in releases)), *_rules(height)]
    places = dict(zip(((number, i) for _, number, i in came), range(len(came)), strict=True))
    for number, release in enumerate(releases):
        body += _band(number, release, left)
    for row, (number, i) in enumerate(left):
        body += _thread(number, _came_y(places[number, i], len(left), len(releases)), _left_y(row, number))
    for row, (_, number, i) in enumerate(came):
        body += _came_row(number, releases[number].visits[i], _came_y(row, len(left), len(releases)))
    for row, (number, i) in enumerate(left):
        body += _left_row(releases[number], releases[number].visits[i], _left_y(row, number))
    body.append(_text(_PAD, height - 20, under, _FAINT, size=11.5))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            f'font-family="{_FONTS}" font-size="12.5">',
            "<title>A stream going into Crenel, and the same visits coming out</title>",
            f"<desc>{escape(_description(releases))}</desc>",
            f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="10" fill="{_GROUND}" '
            f'stroke="{_RULE}"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def _came_y(row: int, rows: int, releases: int) -> float:
    """The base line of a row on the left, where the gaps of the right are spread evenly."""
    return round(_TOP + row * (_ROW + (releases - 1) * _GAP / rows) + 17, 2)


def _left_y(row: int, number: int) -> float:
    return _TOP + row * _ROW + number * _GAP + 17


def _headings(fewest: int) -> Iterator[str]:
    yield _text(_PAD, 38, "Going in", _INK, size=17, weight=600)
    yield _text(_CAME_END, 38, "as the visits came", _FAINT, anchor="end")
    yield _text(_LEFT_START, 38, "Coming out", _INK, size=17, weight=600)
    yield _text(_WIDTH - _PAD, 38, f"each letter a release of {fewest} people or more", _FAINT, anchor="end")
    for name, x in CAME.items():
        yield _text(x, 72, "row" if name == "line" else name, _FAINT, size=11.5)
    for name, x in LEFT.items():
        yield _text(x, 72, name, _FAINT, size=11.5)


def _rules(height: int) -> Iterator[str]:
    for start, end in ((_PAD, _CAME_END), (_LEFT_START, _WIDTH - _PAD)):
        yield f'<path d="M{start} 81H{end}" stroke="{_RULE}"/>'
    yield f'<path d="M{_PAD} {height - 42}H{_WIDTH - _PAD}" stroke="{_RULE}"/>'


def _band(number: int, release: Release, left: Sequence[tuple[int, int]]) -> Iterator[str]:
    """The ground of a release on the right, with its letter."""
    color, tint = _COLORS[number]
    first = left.index((number, 0))
    top, height = _left_y(first, number) - 17, len(release.visits) * _ROW
    yield (
        f'<rect x="{_LEFT_START}" y="{top}" width="{_WIDTH - _PAD - _LEFT_START}" height="{height}" rx="5" '
        f'fill="{tint}"/>'
    )
    yield f'<rect x="{_LEFT_START}" y="{top}" width="18" height="{height}" rx="5" fill="{color}"/>'
    yield _text(_LEFT_START + 9, top + height / 2 + 4.5, chr(ord("A") + number), _GROUND, weight=600, anchor="middle")


def _thread(number: int, start: float, end: float) -> Iterator[str]:
    """From a visit that came to the same visit as it left."""
    a, b, middle = _CAME_END + 22, _LEFT_START, (_CAME_END + 22 + _LEFT_START) / 2
    yield (
        f'<path d="M{a} {start - 4.5}C{middle} {start - 4.5} {middle} {end - 4.5} {b} {end - 4.5}" fill="none" '
        f'stroke="{_COLORS[number][0]}" stroke-width="1.6" stroke-opacity="0.75"/>'
    )


def _came_row(number: int, visit: Mapping[str, str], y: float) -> Iterator[str]:
    for name, x in CAME.items():
        text = _grouped(visit[name]) if name == "salary" else visit[name]
        yield _text(x, y, text, _FAINT if name == "line" else _INK)
    x = _CAME_END + 14
    yield f'<circle cx="{x}" cy="{y - 4.5}" r="8" fill="{_COLORS[number][0]}"/>'
    yield _text(x, y - 0.8, chr(ord("A") + number), _GROUND, size=10.5, weight=600, anchor="middle")


def _left_row(release: Release, visit: Mapping[str, str], y: float) -> Iterator[str]:
    published = release.generalization
    for name, x in LEFT.items():
        if name == "diagnosis":
            text = visit[name]
        elif name in published:
            text = published[name]
        else:
            text = _interval(published[f"{name}_min"], published[f"{name}_max"])
        yield _text(x, y, text, _INK)


def _interval(least: str, most: str) -> str:
    return _grouped(least) if least == most else f"{_grouped(least)} to {_grouped(most)}"


def _grouped(number: str) -> str:
    return f"{int(number):,}"


def _description(releases: Sequence[Release]) -> str:
    counts = [f"{chr(ord('A') + i)}: {len(r.visits)} visits of {r.subjects} people" for i, r in enumerate(releases)]
    return (
        "Left: visits of people to clinics with name, age, area, education, salary and diagnosis. Right: the same "
        "visits without a name, with ranges for numbers and wider groups for area and education, alike within each "
        "release. "
        f"Releases {', '.join(counts)}."
    )


def _text(
    x: float, y: float, text: str, color: str, *, size: float = 12.5, weight: int = 400, anchor: str = "start"
) -> str:
    extra = f' font-size="{size:g}"' * (size != 12.5) + f' font-weight="{weight}"' * (weight != 400)
    extra += f' text-anchor="{anchor}"' * (anchor != "start")
    return f'<text x="{x:g}" y="{y:g}" fill="{color}"{extra}>{escape(text)}</text>'
