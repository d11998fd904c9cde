"""Summary at the top of the page, for privacy officers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crenel.anonymity.model.policy import Policy
from crenel.evidence.report.bins import weighted_quantile
from crenel.evidence.report.context import About, Flow, count, listed, plain, share
from crenel.evidence.report.releases import Releases


def opening(policy: Policy, about: About, left: Releases, flow: Flow) -> Iterator[str]:
    """Yield sentences on published rows, sizes of equivalence classes, and cost."""
    yield _published(policy, flow)
    yield from _groups(about, left)
    yield _cost(left, flow)


def _published(policy: Policy, flow: Flow) -> str:
    names = listed([plain(attribute.name) for attribute in policy.quasi_identifiers])
    whole, rows = flow.rows_in, "input rows"
    if whole is None and flow.suppressed is not None and flow.rejected is not None:
        whole, rows = flow.accounted, "rows that these outputs account for"
    if whole is None:
        text = f"{count(flow.released)} rows were published, with less detail in {names}"
    else:
        part = f"{count(flow.released)} ({share(flow.released, whole)})"
        text = f"Of {count(whole)} {rows}, {part} were published, with less detail in {names}"
    others = []
    if flow.unpublished is not None:
        others.append(_many(flow.unpublished, "suppressed", "too few others were like them"))
    if flow.rejected is not None:
        others.append(_many(sum(flow.rejected.values()), "rejected", "a value was missing or invalid"))
    if flow.sampled_out:
        others.append(_many(flow.sampled_out, "sampled out", "sampling is on"))
    if flow.forgotten:
        others.append(_many(flow.forgotten, "forgotten", "their persons requested it"))
    published = (
        f" {count(flow.published)} more were suppressed, and published fully generalized in these columns."
        if flow.published
        else ""
    )
    return text + (f"; {listed(others)}" if others else "") + "." + published


def _many(rows: int, fate: str, reason: str) -> str:
    return f"{count(rows)} were {fate}, because {reason}" if rows else f"none was {fate}"


def _groups(about: About, left: Releases) -> Iterator[str]:
    k = about.privacy.k
    if not left.tuples.sum():
        return
    if left.subjects is None:
        yield (
            f"Each of them has the same values in these columns as {count(left.smallest_group or 0)} rows or more, "
            f"itself included. Without the audit log, their number of people is unknown; k is {k}."
        )
        return
    least = int(left.subjects.min())
    median = weighted_quantile(left.subjects, left.tuples, 0.5)
    if least < k:
        below = int(left.tuples[left.subjects < k].sum())
        yield (
            f"{count(below)} of them have the same values in these columns as rows of fewer than k = {k} people; the "
            f"smallest group has {least}."
        )
        return
    alike = f"; half of them as rows of {count(median)} or more" if median > least else ""
    people = f"{count(least)} people or more (k is {k}){alike}"
    yield f"Each of them has the same values in these columns as rows of {people}."


def _cost(left: Releases, flow: Flow) -> str:
    costs = []
    if left.loss is not None and left.tuples.sum():
        columns = left.columns
        with_sets = columns is not None and "published_loss" in columns.column_names
        lost = columns["published_loss"].to_numpy() if columns is not None and with_sets else left.loss
        loss = np.average(lost, weights=left.tuples)
        costs.append(f"on average {loss:.0%} of the detail in these columns was lost")
    if flow.unpublished and flow.rows_in:
        costs.append(f"{share(flow.unpublished, flow.rows_in)} of the rows were suppressed")
    if flow.delays:
        keys = np.array(sorted(flow.delays), np.int64)
        median = weighted_quantile(keys, np.array([flow.delays[key] for key in keys.tolist()], np.int64), 0.5)
        costs.append(f"half of the rows waited for {count(median)} later rows or more")
    if not costs:
        return "The cost is unknown without the audit log."
    return f"The cost: {'; '.join(costs)}."


def not_guaranteed(policy: Policy, about: About) -> Iterator[str]:
    """Yield statements that the privacy models do not guarantee (``docs/privacy/guarantees.md``)."""
    yield (
        "Protection against attackers who know the times or the order of records: groups have people with similar "
        "values, not people of one moment."
    )
    kept = [plain(name) for name in (*policy.sensitive, *policy.passthrough)]
    if kept:
        yield f"Anything for columns that are published unchanged: {listed(kept)}. Such a value can identify its row."
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
