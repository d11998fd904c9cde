"""All checks of a run's outputs, given only its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from crenel.evidence.outputs import RunOutputs, values_of
from crenel.evidence.verify import accounts, chain, persons
from crenel.evidence.verify.classes import ReleasedClasses, counted, numbered
from crenel.evidence.verify.domain import domain, losses
from crenel.evidence.verify.sets import sets
from crenel.evidence.verify.spans import STATED, Guarantees, Span, configuration_of, in_force, spans
from crenel.evidence.verify.verdict import Check, Finding, Head, Verdict, judged, unchecked, unseen


def verify(
    outputs: RunOutputs,
    guarantees: Guarantees | Sequence[Guarantees],
    earlier: Sequence[Head] | None = None,
    *,
    run: str | None = None,
    runs_on: bool = False,
) -> Verdict:
    """Check the outputs of a run against its configuration, or each release against the one that was in force.

    Parameters
    ----------
    guarantees : of the configuration, or of each configuration that the job was started or restored with; the outputs
        then have the columns of all of them, null where a configuration does not publish one
    earlier : ``heads`` of an earlier ``Verdict``; ignored without a chain
    run : identity of the run that the chain must state; ignored without a chain
    runs_on : whether the job is known to run on, so that its chain has no end yet

    Raises
    ------
    ValueError
        There are several configurations and no audit log, which states the one of each release.
    """
    given = [guarantees] if isinstance(guarantees, Guarantees) else list(guarantees)
    audit, classes, log, ended = outputs.audit, ReleasedClasses.of(outputs), None, dict[int, dict[str, int]]()
    if audit is None and len(given) > 1:
        raise ValueError("audit: is missing, and only its rows state under which settings each release was made")
    parts = [*spans(outputs, classes, given)]
    checks: list[Check] = []
    for span in parts:
        found = [domain(span)]
        if span.outputs.policy.sets:
            found.append(sets(span))
        if span.outputs.policy.presence:
            found.append(losses(span))
        checks += _named(found, span, given)
    if audit is None:
        checks += _by_rows(outputs, given[0], classes)
    else:
        chained = _chained(audit, outputs.closing, given)
        if chained and "chain" in audit.column_names:
            log = chain.read(*_chained_rows(audit, outputs.closing, given), chained)
            ended = chain.closing_counts(log)
        checks += _by_releases(outputs, audit, given, classes, parts, log)
        if log is not None:
            summary, has_key = outputs.further.get("summary"), all(one.key for _, one in chained)
            rows, closing = _chained_rows(audit, outputs.closing, given)
            checks.append(chain.of_run(rows, closing, summary, has_key=has_key, run=run))
            checks.append(chain.end(log, given[0].shards, runs_on=runs_on))
    resumed = set() if log is None else chain.ends(log).keys() - ended.keys()
    generalizes = any(one.generalizes for one in given)
    checks.append(accounts.counts(outputs, classes, generalizes=generalizes, ended=ended, resumed=resumed))
    checks.append(accounts.nothing_lost(outputs, resumed))
    checks += _outside(given)
    if log is None:
        return Verdict(tuple(checks))
    if earlier is not None:
        checks.append(chain.still_there(log, earlier))
    return Verdict(tuple(checks), chain.heads(log))


def _named(checks: Iterable[Check], span: Span, given: Sequence[Guarantees]) -> Iterator[Check]:
    """Yield checks of one configuration, which is part of their names if there are several."""
    for check in checks:
        yield check if len(given) == 1 else replace(check, name=f"{check.name} under {span.guarantees.name}")


def _chained(
    audit: pa.Table, closing: pa.Table | None, given: Sequence[Guarantees]
) -> list[tuple[list[str], chain.Chained]]:
    """Return the columns of each form of a row in the chain, with the settings of its chain."""
    forms = [(one.columns_of("audit", audit), one.chained) for one in given if one.chained is not None]
    rows = [table for table in (audit, closing) if table is not None and STATED in table.column_names]
    if any(table[STATED].null_count for table in rows):  # rows of an older version
        forms += [([name for name in columns if name != STATED], chained) for columns, chained in forms]
    return forms


def _chained_rows(
    audit: pa.Table, closing: pa.Table | None, given: Sequence[Guarantees]
) -> tuple[pa.Table, pa.Table | None]:
    """Return the rows of the audit log, and of its closing records, without those of configurations without a chain."""
    unchained = [place for place, one in enumerate(given) if one.chained is None]
    if not unchained:
        return audit, closing
    audit = audit.filter(pa.array(~np.isin(configuration_of(audit, given), unchained)))
    return audit, None if closing is None else closing.filter(
        pa.array(~np.isin(configuration_of(closing, given), unchained))
    )


def _by_releases(
    outputs: RunOutputs,
    audit: pa.Table,
    given: Sequence[Guarantees],
    classes: ReleasedClasses,
    parts: Sequence[Span],
    log: chain.Log | None,
) -> Iterator[Check]:
    """Yield the checks that compare the audit log with the rows; ``log``: its chain."""
    first_releases = {} if log is None else chain.beginnings(log)
    yield accounts.release_ids(audit, given[0].shards, first_releases, {} if log is None else chain.ends(log))
    yield accounts.cover(outputs, audit, classes)
    yield in_force(audit, given)
    generalizes, of_release = np.zeros(audit.num_rows, np.bool_), configuration_of(audit, given)
    for span in parts:
        privacy, own = span.guarantees.privacy, span.outputs.audit
        assert own is not None
        found = persons.subjects(span.outputs, own, span.classes, privacy.k, synthetic=span.guarantees.synthetic)
        yield from _named([*found, *persons.sensitive(span.outputs, own, span.classes, privacy)], span, given)
        generalizes |= span.classes.judged & span.guarantees.generalizes
    generalizes |= of_release < 0  # ``in_force`` has findings of these
    yield accounts.alone(outputs, audit, classes, first_releases, generalizes=generalizes)
    if log is None:
        why = "anyone who can change outputs can keep them consistent, or remove the last releases"
        yield unseen("chain", f"audit has no chain (audit_chain): {why}")
    else:
        names = {*outputs.generalization}
        members = [
            chain.ChainSpan(
                one.chained,
                [name for name in one.columns_of("released", outputs.released) if name not in names],
                of_release == place,
            )
            for place, one in enumerate(given)
            if one.chained is not None
        ]
        yield from chain.follow(outputs, audit, classes, log, members)


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


def _outside(given: Sequence[Guarantees]) -> Iterator[Check]:
    """Yield the statements that no output can show."""
    if given[0].synthetic:
        yield unseen("truth", "rows are synthetic: only the input and the secret noise show the counts behind them")
        yield unseen("persons", f"k counts synthetic records, and fewer than {given[0].privacy.k} may be behind them")
    else:
        yield unseen("truth", "only the input shows whether a row's values lie inside its generalization")
    yield unseen("delay", "no output has the time of arrival of a tuple")
    if any(one.privacy.lasting is not None for one in given):
        yield unseen("lasting", "no output has the members of anonymity sets; audit counts them")
    if any(one.noise for one in given):
        yield unseen("sampling and noise", "no output has the original values, nor the sampled-out tuples")
    if any(one.privacy.noise_within_release is not None for one in given):
        yield unseen("noise within releases", "no output has the original numbers")
