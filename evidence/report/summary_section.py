"""Summary at the top of the page, for privacy officers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crenel.anonymity.model.policy import Policy
from crenel.evidence.report.bins import quantile_of_counts, weighted_quantile
from crenel.evidence.report.context import About, Flow, count, listed, plain, share
from crenel.evidence.report.releases import PublishedReleases


def opening(policy: Policy, about: About, left: PublishedReleases, flow: Flow) -> Iterator[str]:
    """Yield sentences on published rows, sizes of equivalence classes, and cost."""
    yield _published(policy, about, flow)
    yield from _groups(about, left)
    yield _cost(left, flow)


def _published(policy: Policy, about: About, flow: Flow) -> str:
    names = listed([plain(attribute.name) for attribute in policy.attributes])
    total, rows = flow.rows_in, "input rows"
    if total is None and not about.synthetic and flow.suppressed is not None and flow.rejected is not None:
        total, rows = flow.accounted, "rows that these outputs account for"
    if about.synthetic:
        source = "" if total is None else f" for {count(total)} {rows}"
        text = f"{count(flow.released)} synthetic records were published{source}, with less detail in {names}"
    elif total is None:
        text = f"{count(flow.released)} rows were published, with less detail in {names}"
    else:
        part = f"{count(flow.released)} ({share(flow.released, total)})"
        text = f"Of {count(total)} {rows}, {part} were published, with less detail in {names}"
    others = []
    if flow.unpublished is not None:
        why = ", or noise lowered the count of those" if about.synthetic else ""
        others.append(_many(flow.unpublished, "suppressed", f"too few others were like them{why}"))
    if flow.rejected is not None:
        others.append(_many(sum(flow.rejected.values()), "rejected", "a value was missing or invalid"))
    if flow.sampled_out:
        others.append(_many(flow.sampled_out, *_sampled_out(about)))
    if flow.forgotten:
        others.append(_many(flow.forgotten, "forgotten", "their persons requested it"))
    published = (
        f" {count(flow.published)} more were suppressed, and published fully generalized in these columns."
        if flow.published
        else ""
    )
    if about.synthetic:
        text += ". None of them is the record of a person"
        others = [f"of the input rows, {listed(others)}"] if others else []
    return text + (f"; {listed(others)}" if others else "") + "." + published


def _sampled_out(about: About) -> tuple[str, str]:
    """Return the fate of tuples that an algorithm left out, and its reason."""
    late = "late, or beyond the contribution bound of their person"
    if about.synthetic:
        return "not counted", f"they were {late}"
    return "sampled out", f"they were outside of the sample, {late}" if about.private else "sampling is on"


def _many(rows: int, fate: str, reason: str) -> str:
    return f"{count(rows)} were {fate}, because {reason}" if rows else f"none was {fate}"


def _groups(about: About, left: PublishedReleases) -> Iterator[str]:
    k = about.privacy.k
    if not left.tuples.sum():
        return
    if left.subjects is None:
        yield (
            f"Each of them has the same values in these columns as {count(left.smallest_group or 0)} rows or more, "
            "itself included. "
            + (
                f"k is {k}, and counts these records: fewer than {k} people may be behind them."
                if about.synthetic
                else f"Without the audit log, their number of people is unknown; k is {k}."
            )
        )
        return
    rows, people = ("", "synthetic records") if about.synthetic else ("rows of ", "people")
    least = int(left.subjects.min())
    median = weighted_quantile(left.subjects, left.tuples, 0.5)
    if least < k:
        below = int(left.tuples[left.subjects < k].sum())
        yield (
            f"{count(below)} of them have the same values in these columns as {rows}fewer than k = {k} {people}; the "
            f"smallest group has {least}."
        )
        return
    alike = f"; half of them as {rows}{count(median)} or more" if median > least else ""
    many = f"{count(least)} {people} or more (k is {k}){alike}"
    yield f"Each of them has the same values in these columns as {rows}{many}."
    if about.synthetic:
        yield f"k counts these records, because their number has noise: fewer than {k} people may be behind them."


def _cost(left: PublishedReleases, flow: Flow) -> str:
    costs = []
    if left.loss is not None and left.tuples.sum():
        lost = "published_loss" if "published_loss" in left.table.column_names else "loss"
        loss = np.average(left.table[lost].to_numpy(), weights=left.tuples)
        costs.append(f"on average {loss:.0%} of the detail in these columns was lost")
    if flow.unpublished and flow.rows_in:
        costs.append(f"{share(flow.unpublished, flow.rows_in)} of the rows were suppressed")
    if flow.delays:
        costs.append(f"half of the rows waited for {count(quantile_of_counts(flow.delays, 0.5))} later rows or more")
    if not costs:
        return "The cost is unknown without the audit log."
    return f"The cost: {'; '.join(costs)}."


def not_guaranteed(policy: Policy, about: About) -> Iterator[str]:
    """Yield statements that the privacy models do not guarantee (``docs/privacy/guarantees.md``)."""
    if about.private:
        yield from _not_private(policy, about)
        return
    yield (
        "Protection against attackers who know the times or the order of records: groups have people with similar "
        "values, not people of one moment."
    )
    kept = [plain(name) for name in policy.unchanged]
    if kept:
        yield f"Anything for columns that are published unchanged: {listed(kept)}. Such a value can identify its row."
    if policy.generalized:
        labeled = listed([plain(name) for name in policy.generalized])
        yield (
            f"Secrecy of the labels of {labeled}: each row shows that of its own value, and the privacy models below "
            "count labels."
        )
    if policy.subject is None:
        yield (
            "Different people in a group: the configuration names no subject, so every row counts as a person of its "
            "own."
        )
    elif about.privacy.lasting is None:
        yield (
            "Protection of several rows of one person: each group is counted by itself, and an attacker who links the "
            "rows of a person may narrow them down to fewer than k people."
        )
    if policy.sets:
        yield (
            f"Silence about single values of {listed([plain(a.name) for a in policy.sets])}: each listed value is that "
            "of a person in the group."
        )
    if policy.sensitive:
        yield (
            f"Values of {listed([plain(name) for name in policy.sensitive])} that differ in meaning, or are as common "
            "in each group as elsewhere, beyond the privacy models below."
        )
    else:
        yield "Anything for values that the members of a group have in common: no column is named as sensitive."
    yield "Differential privacy at a useful epsilon."


def _not_private(policy: Policy, about: About) -> Iterator[str]:
    """Yield statements that a guarantee of differential privacy does not include."""
    yield (
        "More than epsilon and delta below, for each person and horizon: what several horizons, epochs and other "
        "publications tell of a person adds up."
    )
    yield "Anything for other outputs than the published records: the audit log, the summary and this page are exact."
    if policy.subject is None:
        yield "Protection of several rows of one person: the configuration names no subject, so it holds for each row."
    if about.synthetic:
        yield f"{about.privacy.k} people behind a combination of published values: k counts synthetic records."
    yield "Secrecy of what is true of many people: a recipient may apply it to one who resembles them."
