"""Figures of the page, each with its text alternative and its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crenel.evidence.attack.result import ALL, Attack
from crenel.evidence.report import figures
from crenel.evidence.report.context import About, Figure, Flow, Table, count, plain, share
from crenel.evidence.report.distributions import Spread


def distribution(name: str, title: str, what: str, bins: Sequence[tuple[str, int]], unit: str = "rows") -> Figure:
    """Return a histogram of rows; at least one bin holds a row.

    Parameters
    ----------
    what : header of the bins, such as ``persons``
    unit : of the counts
    """
    total = sum(amount for _, amount in bins)
    fullest = max(bins, key=lambda pair: pair[1])
    text = (
        f"Bars: the share of {unit} by {what}, from {bins[0][0]} to {bins[-1][0]}. "
        f"Most of them: {fullest[0]}, with {share(fullest[1], total)}."
    )
    labels = [label for label, _ in bins]
    svg = figures.bars(name, labels, [amount / total for _, amount in bins], f"of {unit}")
    rows = tuple((label, count(amount), share(amount, total)) for label, amount in bins)
    return Figure(name, title, text, svg, Table(title, (what, unit, "share"), rows))


def shares(name: str, title: str, what: str, bars: Sequence[tuple[str, float]], measure: str) -> Figure:
    """Return a bar chart of a share of 1 for each name; at least one name."""
    most = max(bars, key=lambda pair: pair[1])
    text = f"Bars: {measure} by {what}. The largest: {plain(most[0])}, {most[1]:.1%}."
    svg = figures.bars(name, [label for label, _ in bars], [value for _, value in bars], measure)
    rows = tuple((plain(label), f"{value:.1%}") for label, value in bars)
    return Figure(name, title, text, svg, Table(title, (what, measure), rows))


def over_time(name: str, title: str, averages: Sequence[tuple[str, float, int]]) -> Figure:
    """Return a line chart of a share of 1 over intervals, with the tuples of each."""
    values = [value for _, value, _ in averages]
    text = (
        f"A line from {averages[0][0]} to {averages[-1][0]}: it begins at {values[0]:.1%}, ends at {values[-1]:.1%}, "
        f"and lies between {min(values):.1%} and {max(values):.1%}."
    )
    rows = tuple((label, f"{value:.1%}", count(tuples)) for label, value, tuples in averages)
    svg = figures.line(name, [label for label, _, _ in averages], values, "mean loss")
    return Figure(name, title, text, svg, Table(title, ("from", "mean loss", "rows"), rows))


def beside(name: str, spread: Spread) -> Figure:
    """Return the distribution of a quasi-identifier in the input and the output, or in the output alone."""
    title, labels = plain(spread.name), [plain(label) for label in spread.labels]
    left, after = spread.left, sum(spread.left)
    if spread.came is None or spread.moved is None:
        svg = figures.bars(name, labels, [part / after for part in left], "of published tuples")
        alone = tuple((label, count(part), share(part, after)) for label, part in zip(labels, left, strict=True))
        text = f"Bars: the share of published tuples by {title}. The input is unknown here."
        return Figure(name, title, text, svg, Table(title, (title, "output", "share"), alone))
    came, before = spread.came, sum(spread.came)
    svg = figures.paired_bars(name, labels, [part / before for part in came], [part / after for part in left])
    rows = tuple(
        (label, count(one), share(one, before), count(other), share(other, after))
        for label, one, other in zip(labels, came, left, strict=True)
    )
    text = (
        f"Pairs of bars: the share of tuples by {title}, in the input and in the output. "
        f"At least {spread.moved:.1%} of the tuples would have to change bars to make the two equal."
    )
    return Figure(
        name, title, text, svg, Table(title, (title, "input", "of the input", "output", "of the output"), rows)
    )


def attacked(name: str, judged: str, attacks: Sequence[Attack]) -> Figure:
    """Return the success of attacks of one kind, with confidence intervals and baselines."""
    best = max(attacks, key=lambda attack: attack.success)
    where = "on the outputs" if judged == "outputs" else "on replays of the input"
    title = f"Success of attacks, {where}"
    text = f"Points with intervals, a cross for the baseline. The most successful: {best.name}, {best.success:.1%}."
    svg = figures.intervals(
        name,
        [f"{attack.name}: {attack.knows.replace(ALL, 'all')}" for attack in attacks],
        [attack.success for attack in attacks],
        [(attack.low, attack.high) for attack in attacks],
        [attack.baseline for attack in attacks],
    )
    rows = tuple(
        (
            plain(attack.name),
            plain(attack.knows),
            f"{attack.success:.2%}",
            f"{attack.low:.2%} to {attack.high:.2%}",
            "-" if attack.baseline is None else f"{attack.baseline:.2%}",
            "-" if attack.promised is None else f"{attack.promised:.2%}{', above' if attack.above else ''}",
            plain(attack.note),
        )
        for attack in attacks
    )
    columns = ("attack", "the attacker knows", "success", "interval", "baseline", "by k", "note")
    return Figure(name, title, text, svg, Table(title, columns, rows), below=True)


def flowing(name: str, about: About, flow: Flow) -> Figure:
    """Return the fates of the rows that were read."""
    published = "counted in a published group" if about.synthetic else "published, generalized"
    parts = [(published, flow.released - (flow.synthetic or 0), "released")]
    parts += [(words, rows, "suppressed") for words, rows in _suppressed(about, flow) if rows]
    parts += [
        (f"rejected: {_words(reason)}", rows, "rejected") for reason, rows in (flow.rejected or {}).items() if rows
    ]
    known = sum(rows for _, rows, _ in parts)
    total = known if flow.rows_in is None else flow.rows_in
    source = f"{count(total)} rows " + ("read" if flow.rows_in is not None else "that these outputs account for")
    drawn = [(f"{plain(words)}: {count(rows)} ({share(rows, total)})", rows, kind) for words, rows, kind in parts]
    text = f"A stream of {source} divides: " + "; ".join(words for words, _, _ in drawn) + "."
    rows_of_table = [(plain(words), count(rows), share(rows, total)) for words, rows, _ in parts]
    rows_of_table.append(("total", count(known), share(known, total)))
    table = Table("Rows by outcome", ("outcome", "rows", "share"), tuple(rows_of_table))
    svg = figures.flow(name, source, [(words, float(rows), kind) for words, rows, kind in drawn])
    return Figure(name, "Rows by outcome", text, svg, table)


def _suppressed(about: About, flow: Flow) -> Iterator[tuple[str, int]]:
    """Yield the parts of admitted rows that were not published in an equivalence class."""
    reasons = flow.suppressed or {}
    if flow.published and (flow.unpublished or not reasons):
        yield "suppressed, published fully generalized", flow.published
        yield "suppressed, not published", flow.unpublished or 0
    else:
        how = "published fully generalized" if flow.published else "suppressed"
        yield from ((f"{how}: {_words(reason)}", rows) for reason, rows in reasons.items())
    yield "not counted" if about.synthetic else "sampled out", flow.sampled_out or 0
    yield "forgotten on request", flow.forgotten


def _words(reason: str) -> str:
    return plain(reason.replace("_", " "))
