"""All checks of a run's outputs, given only its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.evidence.outputs import RunOutputs, values_of
from crenel.evidence.verify import accounts, chain, persons
from crenel.evidence.verify.classes import ReleasedClasses, counted, numbered
from crenel.evidence.verify.domain import domain, losses
from crenel.evidence.verify.sets import sets
from crenel.evidence.verify.spans import STATED, Guarantees, Span, columns, configuration_of, in_force, spans
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
    of_release = np.zeros(0, np.int64) if audit is None else configuration_of(audit, given)
    parts = [*spans(outputs, classes, given, of_release)]
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
        chained = _rows_of_chain(audit, outputs.closing, given, of_release)
        if chained is not None:
            log = chain.read(chained)
            ended = chain.closing_counts(log)
        checks += _by_releases(outputs, audit, given, classes, of_release, parts, log)
        if chained is not None and log is not None:
            summary, has_key = outputs.further.get("summary"), all(part.key for part in chained)
            checks.append(chain.of_run([part.table for part in chained], summary, has_key=has_key, run=run))
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


def _rows_of_chain(
    audit: pa.Table, closing: pa.Table | None, given: Sequence[Guarantees], of_release: NDArray[np.int64]
) -> list[chain.ChainedRows] | None:
    """Return the rows of ``audit`` by the configuration that has a chain; None where none has, or ``audit`` has none.

    A row of an unknown configuration, which ``in_force`` finds, is hashed as one of the first configuration.
    """
    chained = [place for place, one in enumerate(given) if one.chained is not None]
    if not chained or "chain" not in audit.column_names:
        return None
    tables = [(audit, of_release, False)]
    if closing is not None:
        tables.append((closing, configuration_of(closing, given), True))
    found: list[chain.ChainedRows] = []
    for table, of_row, closes in tables:
        of_row = np.where(of_row < 0, chained[0], of_row)
        has_hash = np.ones(table.num_rows, np.bool_)
        if STATED in table.column_names:  # rows of an older version have none
            has_hash = table[STATED].is_valid().to_numpy()
        for place in chained:
            one = given[place]
            assert one.chained is not None
            names = one.columns_of("audit", audit)
            for own, form in ((has_hash, names), (~has_hash, [name for name in names if name != STATED])):
                rows = table.filter(pa.array(own & (of_row == place)))
                if rows.num_rows:
                    found.append(chain.ChainedRows(rows, closes, form, one.chained.key))
    return found


def _by_releases(
    outputs: RunOutputs,
    audit: pa.Table,
    given: Sequence[Guarantees],
    classes: ReleasedClasses,
    of_release: NDArray[np.int64],
    parts: Sequence[Span],
    log: chain.Log | None,
) -> Iterator[Check]:
    """Yield the checks that compare the audit log with the rows; ``log``: its chain."""
    first_releases = {} if log is None else chain.beginnings(log)
    yield accounts.release_ids(audit, given[0].shards, first_releases, {} if log is None else chain.ends(log))
    yield accounts.cover(outputs, audit, classes)
    yield in_force(audit, given, of_release)
    if len(given) > 1:
        yield columns(outputs, audit, classes, given, of_release)
    generalizes = of_release < 0  # ``in_force`` has findings of these
    for span in parts:
        privacy, own = span.guarantees.privacy, span.outputs.audit
        assert own is not None
        found = persons.subjects(span.outputs, own, span.classes, privacy.k, synthetic=span.guarantees.synthetic)
        yield from _named([*found, *persons.sensitive(span.outputs, own, span.classes, privacy)], span, given)
        generalizes |= span.classes.judged & span.guarantees.generalizes
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
        yield from _without_chain(audit, given, of_release, log)


def _without_chain(
    audit: pa.Table, given: Sequence[Guarantees], of_release: NDArray[np.int64], log: chain.Log
) -> Iterator[Check]:
    """Yield what the chain of other configurations does not say about the releases of one that has none."""
    begins = {shard: entries[0].release for shard, entries in log.items()}
    for place, one in enumerate(given):
        rows = audit.filter(pa.array(of_release == place)).select(["shard", "release_id"]).to_pylist()
        if one.chained is None and rows:
            name, text = (
                f"chain under {one.name}",
                f"{len(rows):,} releases have no chain: anyone can change or add them",
            )
            later = sum(row["release_id"] > begins.get(row["shard"], row["release_id"]) for row in rows)
            behind = f"; {later:,} of them follow a release of their shard that has one" if later else ""
            yield unchecked(name, text + behind) if later else unseen(name, text)


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
