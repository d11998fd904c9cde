"""All checks of a run's outputs, given only its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.outputs import RunOutputs, values_of
from crenel.evidence.verify import accounts, chain, persons
from crenel.evidence.verify.classes import ReleasedClasses, counted, numbered
from crenel.evidence.verify.domain import domain, losses
from crenel.evidence.verify.sets import sets
from crenel.evidence.verify.verdict import Check, Finding, Head, Verdict, judged, unchecked, unseen


@dataclass(frozen=True)
class Guarantees:
    """The parts of a configuration that outputs are checked against.

    Attributes
    ----------
    privacy : the privacy models of every release
    in_force : the values that each audit row states for them, by column; None where a model is not configured
    shards : number of shards
    generalizes : whether suppressed tuples are published fully generalized
    noise : whether sampling and perturbation are configured
    synthetic : whether published records are synthetic, so that k counts them in the place of persons
    chained : settings of the audit log's hash chain; None where it has none
    """

    privacy: Privacy
    in_force: Mapping[str, float | None]
    shards: int
    generalizes: bool
    noise: bool
    synthetic: bool = False
    chained: chain.Chained | None = None


def verify(
    outputs: RunOutputs,
    guarantees: Guarantees,
    earlier: Sequence[Head] | None = None,
    *,
    run: str | None = None,
    runs_on: bool = False,
) -> Verdict:
    """Check the outputs of a run against its configuration.

    Parameters
    ----------
    earlier : ``heads`` of an earlier ``Verdict``; ignored without a chain
    run : identity of the run that the chain must state; ignored without a chain
    runs_on : whether the job is known to run on, so that its chain has no end yet
    """
    audit, classes, log, ended = outputs.audit, ReleasedClasses.of(outputs), None, dict[int, dict[str, int]]()
    checks = [domain(outputs)]
    if outputs.policy.sets:
        checks.append(sets(outputs))
    if outputs.policy.presence:
        checks.append(losses(outputs))
    if audit is None:
        checks += _by_rows(outputs, guarantees, classes)
    else:
        if guarantees.chained is not None and "chain" in audit.column_names:
            log = chain.read(audit, outputs.closing)
            ended = chain.closing_counts(log)
        checks += _by_releases(outputs, audit, guarantees, classes, log)
        if log is not None and guarantees.chained is not None:
            summary = outputs.further.get("summary")
            checks.append(chain.of_run(audit, outputs.closing, summary, guarantees.chained, run))
            checks.append(chain.end(log, guarantees.shards, runs_on=runs_on))
    resumed = set() if log is None else chain.ends(log).keys() - ended.keys()
    checks.append(accounts.counts(outputs, classes, generalizes=guarantees.generalizes, ended=ended, resumed=resumed))
    checks.append(accounts.nothing_lost(outputs, resumed))
    checks += _outside(guarantees)
    if log is None:
        return Verdict(tuple(checks))
    if earlier is not None:
        checks.append(chain.still_there(log, earlier))
    return Verdict(tuple(checks), chain.heads(log))


def _by_releases(
    outputs: RunOutputs, audit: pa.Table, guarantees: Guarantees, classes: ReleasedClasses, log: chain.Log | None
) -> Iterator[Check]:
    """Yield the checks that compare the audit log with the rows; ``log``: its chain."""
    first_releases = {} if log is None or guarantees.chained is None else chain.beginnings(log, guarantees.chained)
    yield accounts.release_ids(audit, guarantees.shards, first_releases, {} if log is None else chain.ends(log))
    yield accounts.cover(outputs, audit, classes)
    yield accounts.in_force(audit, guarantees.in_force)
    yield from persons.subjects(outputs, audit, classes, guarantees.privacy.k, synthetic=guarantees.synthetic)
    yield from persons.sensitive(outputs, audit, classes, guarantees.privacy)
    yield accounts.alone(outputs, audit, classes, first_releases, generalizes=guarantees.generalizes)
    if log is None or guarantees.chained is None:
        why = "anyone who can change outputs can keep them consistent, or remove the last releases"
        yield unseen("chain", f"audit has no chain (audit_chain): {why}")
    else:
        yield from chain.follow(outputs, audit, classes, log, guarantees.chained)


def _by_rows(outputs: RunOutputs, guarantees: Guarantees, classes: ReleasedClasses) -> Iterator[Check]:
    """Yield the checks that rows allow without an audit log; checks that need it count as unchecked."""
    privacy, loose = guarantees.privacy, guarantees.generalizes or guarantees.privacy.lasting is not None
    for name, why in (
        ("release ids", "no output shows the existing releases"),
        ("cover", "no output shows the expected rows"),
        ("in force", "no output shows the privacy models in force"),
        ("distinct persons", "no output shows the persons of a release"),
        ("alone", "no output shows singleton releases"),
    ):
        if name != "distinct persons" or not guarantees.synthetic:
            yield _without_audit(name, why)
    if loose:
        yield _without_audit("k", "rows of fewer than k persons may be published under one generalization")
    else:
        few = np.flatnonzero(classes.rows < privacy.k)
        findings = [
            Finding(f"only {classes.rows[number]} rows lie under one generalization") for number in few.tolist()
        ]
        words = f"{privacy.k} rows or more under each of {classes.count:,} generalizations"
        yield judged("k by rows", words, findings)
        if not guarantees.synthetic:
            yield _without_audit("k", "rows alone were counted, and a person may have several")
    for column in outputs.policy.sensitive:
        least = privacy.l_of(column)[0]
        if not loose:
            rows, texts = values_of(outputs, column)
            values = counted(classes.released[rows], numbered(texts))
            findings = [
                Finding(f"only {len(distinct)} values lie under one generalization")
                for _, distinct in values
                if len(distinct) < least
            ]
            yield judged(f"values of {column}", f"{least} or more under each generalization", findings)
        for name in (f"l of {column}", *(f"{model.name} of {column}" for model, *_ in privacy.further_of(column))):
            yield _without_audit(name, "no output shows the rows of a release, nor its persons")
    if guarantees.chained is not None:
        yield _without_audit("chain", "it holds the chain")


def _without_audit(name: str, why: str) -> Check:
    return unchecked(name, f"sinks.audit is missing: {why}")


def _outside(guarantees: Guarantees) -> Iterator[Check]:
    """Yield the statements that no output can show."""
    if guarantees.synthetic:
        yield unseen("truth", "rows are synthetic: only the input and the secret noise show the counts behind them")
        yield unseen("persons", f"k counts synthetic records, and fewer than {guarantees.privacy.k} may be behind them")
    else:
        yield unseen("truth", "only the input shows whether a row's values lie inside its generalization")
    yield unseen("delay", "no output has the time of arrival of a tuple")
    if guarantees.privacy.lasting is not None:
        yield unseen("lasting", "no output has the members of anonymity sets; audit counts them")
    if guarantees.noise:
        yield unseen("sampling and noise", "no output has the original values, nor the sampled-out tuples")
    if guarantees.privacy.noise_within_release is not None:
        yield unseen("noise within releases", "no output has the original numbers")
