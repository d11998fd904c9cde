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
    yield _what_left(policy, flow)
    yield from _groups(about, left)
    yield _cost(left, flow)


def _what_left(policy: Policy, flow: Flow) -> str:
    names = listed([plain(attribute.name) for attribute in policy.quasi_identifiers])
    whole, came = flow.rows_in, "rows that came in"
    if whole is None and flow.suppressed is not None and flow.rejected is not None:
        whole, came = flow.accounted, "rows that these outputs account for"
    if whole is None:
        told = f"{count(flow.released)} rows left, with less detail in {names}"
    else:
        part = f"{count(flow.released)} ({share(flow.released, whole)})"
        told = f"Of {count(whole)} {came}, {part} left, with less detail in {names}"
    held = []
    if flow.withheld is not None:
        held.append(_many(flow.withheld, "held back", "they could not be hidden among enough others"))
    if flow.rejected is not None:
        held.append(_many(sum(flow.rejected.values()), "turned away", "a value was missing or wrong"))
    if flow.sampled_out:
        held.append(_many(flow.sampled_out, "left out at random", "sampling is on"))
    if flow.forgotten:
        held.append(_many(flow.forgotten, "forgotten", "their persons asked for it"))
    published = (
        f" {count(flow.published)} more could not be hidden either, and left with nothing told in these columns."
        if flow.published
        else ""
    )
    return told + (f"; {listed(held)}" if held else "") + "." + published


def _many(rows: int, what: str, why: str) -> str:
    return f"{count(rows)} were {what}, because {why}" if rows else f"none was {what}"


def _groups(about: About, left: Releases) -> Iterator[str]:
    k = about.privacy.k
    if not left.tuples.sum():
        return
    if left.subjects is None:
        yield (
            f"Each of them looks, in these columns, like {count(left.smallest_group or 0)} rows or more, itself "
            f"included. Of how many people these rows are cannot be seen without the audit log; {k} were promised."
        )
        return
    least = int(left.subjects.min())
    median = weighted_quantile(left.subjects, left.tuples, 0.5)
    if least < k:
        below = int(left.tuples[left.subjects < k].sum())
        yield (
            f"{count(below)} of them look, in these columns, like those of fewer than the {k} people promised; the "
            f"smallest group is of {least}."
        )
        return
    alike = f"; half of them are like those of {count(median)} or more" if median > least else ""
    yield f"Each of them looks, in these columns, like those of {count(least)} people or more ({k} promised){alike}."


def _cost(left: Releases, flow: Flow) -> str:
    told = []
    if left.loss is not None and left.tuples.sum():
        loss = np.average(left.loss, weights=left.tuples)
        told.append(f"on average {loss:.0%} of the detail in these columns was lost")
    if flow.withheld and flow.rows_in:
        told.append(f"{share(flow.withheld, flow.rows_in)} of the rows were held back")
    if flow.delays:
        keys = np.array(sorted(flow.delays), np.int64)
        median = weighted_quantile(keys, np.array([flow.delays[key] for key in keys.tolist()], np.int64), 0.5)
        told.append(f"half of the rows waited for {count(median)} later ones or more")
    if not told:
        return "What this cost cannot be seen without the audit log."
    return f"The cost: {'; '.join(told)}."


def not_promised(policy: Policy, about: About) -> Iterator[str]:
    """Yield statements that the privacy models do not guarantee (``docs/privacy.md``)."""
    yield (
        "That nobody is found by somebody who knows when, or in what order, records came in: groups are of people who "
        "look alike, not of people at one moment."
    )
    kept = [plain(name) for name in (*policy.sensitive, *policy.passthrough)]
    if kept:
        yield f"Anything for what is published as it is: {listed(kept)}. Who knows such a value can find the row by it."
    if policy.subject is None:
        yield (
            "That a group is of different people: the configuration names no subject, so every row counts as a person "
            "of its own."
        )
    elif about.privacy.lasting is None:
        yield (
            "That several rows of one person cannot be put together: each group is counted by itself, and who can tell "
            "which rows are one person's may be left with fewer people than promised."
        )
    if policy.sensitive:
        yield (
            f"That values of {listed([plain(name) for name in policy.sensitive])} are unlike in meaning, or as common "
            "in each group as elsewhere, beyond what is promised below."
        )
    else:
        yield "Anything about what the members of a group have in common: no column is named as sensitive."
    yield "Differential privacy worth the name."
