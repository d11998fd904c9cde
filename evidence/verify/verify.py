"""All checks of the outputs of a run, knowing nothing of how they came about but what was promised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anonymity.privacy import Privacy
from evidence.outputs import Outputs
from evidence.verify import accounts, persons
from evidence.verify.chain import Chained, Head, beginnings, follow, heads, still_there
from evidence.verify.classes import Classes, counted, numbered
from evidence.verify.verdict import Check, Finding, Verdict, judged, unseen


@dataclass(frozen=True)
class Promised:
    """What a configuration says.

    Attributes
    ----------
    privacy : what every release keeps
    in_force : what the audit log tells of that in each row, by column; None where it is not promised
    shards : how many there are
    generalises : whether what is suppressed is published fully generalised
    noise : whether there is sampling and perturbation
    chained : what the audit log's hash chain was made with; None where it has none
    """

    privacy: Privacy
    in_force: Mapping[str, float | None]
    shards: int
    generalises: bool
    noise: bool
    chained: Chained | None = None


def verify(outputs: Outputs, promised: Promised, earlier: Sequence[Head] | None = None) -> Verdict:
    """Check the outputs of a run against what was promised.

    ``earlier``: what a ``Verdict`` told as ``heads`` before; without a chain they are passed over.
    """
    checks = list(_checks(outputs, promised))
    if outputs.audit is None or promised.chained is None or "chain" not in outputs.audit.column_names:
        return Verdict(tuple(checks), {})
    if earlier is not None:
        checks.append(still_there(outputs.audit, earlier))
    return Verdict(tuple(checks), heads(outputs.audit))


def _checks(outputs: Outputs, promised: Promised) -> Iterator[Check]:
    audit, classes = outputs.audit, Classes.of(outputs)
    if audit is None:
        yield from _by_rows(outputs, promised, classes)
    else:
        chained = promised.chained if "chain" in audit.column_names else None
        begun = {} if chained is None else beginnings(audit, chained)
        yield accounts.release_ids(audit, promised.shards, begun)
        yield accounts.cover(outputs, audit, classes)
        yield accounts.in_force(audit, promised.in_force)
        yield from persons.subjects(outputs, audit, classes, promised.privacy.k)
        yield from persons.sensitive(outputs, audit, classes, promised.privacy)
        yield accounts.alone(outputs, audit, classes, begun, generalises=promised.generalises)
        if chained is None:
            yield unseen("chain", "audit has no chain (audit_chain): who can change outputs can make them agree")
        else:
            yield from follow(outputs, audit, classes, chained)
    yield accounts.counts(outputs, classes, generalises=promised.generalises)
    yield from _outside(outputs, promised)


def _by_rows(outputs: Outputs, promised: Promised, classes: Classes) -> Iterator[Check]:
    """What rows tell where no release is told of."""
    privacy, loose = promised.privacy, promised.generalises or promised.privacy.lasting is not None
    yield unseen("release ids", "sinks.audit is not kept, so nobody can tell releases")
    yield unseen("cover", "sinks.audit is not kept, so nobody can tell which rows there should be")
    if loose:
        yield unseen("k", "rows may leave under a generalisation of fewer than k, and sinks.audit is not kept")
        return
    few = np.flatnonzero(classes.rows < privacy.k)
    findings = [Finding(f"only {classes.rows[number]} rows lie under one generalisation") for number in few.tolist()]
    yield judged("k", f"{privacy.k} rows or more under each of {classes.count:,} generalisations", findings)
    for column in outputs.policy.sensitive:
        least = privacy.l_of(column)[0]
        values = counted(classes.released, numbered(outputs.released[column]))
        findings = [
            Finding(f"only {len(held)} values lie under one generalisation") for _, held in values if len(held) < least
        ]
        yield judged(f"l of {column}", f"{least} values or more under each generalisation", findings)


def _outside(outputs: Outputs, promised: Promised) -> Iterator[Check]:
    """What nobody can see from outside."""
    yield unseen("truth", "whether a row's values lie inside its generalisation shows beside the input only")
    summary = outputs.further.get("summary")
    if outputs.audit is None or outputs.suppressed is None or summary is None or not summary.num_rows:
        yield unseen("nothing lost", "how many rows came in is told by the sink summary, at the end of the input")
    yield unseen("delay", "when a tuple came in is in no output")
    if promised.privacy.lasting is not None:
        yield unseen("lasting", "who are companions of whom is in no output; audit counts them")
    if promised.noise:
        yield unseen("sampling and noise", "the values as they were, and what was left out, are in no output")
    if promised.privacy.noise_within is not None:
        yield unseen("noise within releases", "the numbers as they were are in no output")
