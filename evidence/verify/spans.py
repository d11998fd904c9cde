"""Releases by the configuration under which they were made: a restore may change settings in the middle of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.verify.accounts import rows_text
from crenel.evidence.verify.chain import Chained
from crenel.evidence.verify.classes import ReleasedClasses
from crenel.evidence.verify.verdict import Check, Finding, at_releases, judged

STATED = "in_force"
"""Column of ``audit`` with a hash of the settings that were in force for the release; older outputs have none."""

_REMEDY = (
    "if the job was restored with other settings, verify with all of them together (crenel verify BEFORE.yaml "
    "AFTER.yaml)"
)


@dataclass(frozen=True)
class Guarantees:
    """The parts of a configuration that outputs are checked against.

    Attributes
    ----------
    policy : of the releases; its columns
    privacy : the privacy models of every release
    in_force : the values that each audit row states for them, by column; None where a model is not configured
    shards : number of shards
    generalizes : whether suppressed tuples are published fully generalized
    noise : whether sampling and perturbation are configured
    synthetic : whether published records are synthetic, so that k counts them in the place of persons
    chained : settings of the audit log's hash chain; None where it has none
    digest : hash of the settings, as each audit row states it; empty where it is unknown
    name : of the configuration, for messages about one of several
    columns : names of the columns of ``released`` and ``audit``, by output
    """

    policy: Policy
    privacy: Privacy
    in_force: Mapping[str, float | None]
    shards: int
    generalizes: bool
    noise: bool
    synthetic: bool = False
    chained: Chained | None = None
    digest: str = ""
    name: str = ""
    columns: Mapping[str, Sequence[str]] | None = None

    def columns_of(self, output: str, table: pa.Table) -> list[str]:
        """Return the columns of an output under this configuration, in their order."""
        return table.column_names if self.columns is None else list(self.columns[output])

    @property
    def models(self) -> str:
        """The values in force as text."""
        return ", ".join(f"{name} {number_text(value)}" for name, value in self.in_force.items() if value is not None)


@dataclass(frozen=True)
class Span:
    """The releases under one configuration, and the rows under their generalizations.

    Attributes
    ----------
    guarantees : of the configuration
    outputs : of the run, with the policy and the columns of the configuration, and with all rows
    classes : of the run, which judge the releases of this configuration alone
    rows : (rows of released,) whether a release of this configuration has the generalization of the row, or none has
    partial : columns that only some of the given configurations publish: at a restore, buffered tuples lack their value
    """

    guarantees: Guarantees
    outputs: RunOutputs
    classes: ReleasedClasses
    rows: NDArray[np.bool_]
    partial: frozenset[str] = frozenset()


def configuration_of(table: pa.Table, given: Sequence[Guarantees]) -> NDArray[np.int64]:
    """Return (rows,) the configuration of each row of ``audit``, by its place among those given; -1 for none of them.

    A single configuration is that of all rows. A row without a hash of its settings, of an older version, is of a
    configuration that has the numbers and the sensitive columns that the row states. Of several such configurations,
    or several with one hash, it is the first one that has a chain exactly if the row has.
    """
    if len(given) == 1:
        return np.zeros(table.num_rows, np.int64)
    has_hash = has_chain = np.zeros(table.num_rows, np.bool_)
    if STATED in table.column_names:
        has_hash = table[STATED].is_valid().to_numpy()
    if "chain" in table.column_names:
        has_chain = table["chain"].is_valid().to_numpy()
    found, is_exact = np.full(table.num_rows, -1), np.zeros(table.num_rows, np.bool_)
    for place, one in enumerate(given):
        fits = _states_hash(table, one.digest) if has_hash.any() else has_hash
        if not has_hash.all():
            fits = fits | (~has_hash & _states(table, one, given))
        fits_chain = has_chain == (one.chained is not None)
        found[fits & ((found < 0) | (fits_chain & ~is_exact))] = place
        is_exact |= fits & fits_chain
    return found


def _states_hash(table: pa.Table, digest: str) -> NDArray[np.bool_]:
    """Return (rows,) whether a row states this hash of its settings."""
    return np.asarray(pc.fill_null(pc.equal(table[STATED], digest), False).to_numpy())


def _states(table: pa.Table, one: Guarantees, given: Iterable[Guarantees]) -> NDArray[np.bool_]:
    """Return (rows,) whether a row states the numbers of a configuration, and its sensitive columns."""
    fits = np.ones(table.num_rows, np.bool_)
    for name in {name for each in given for name in each.in_force}:
        fits &= _equals(table, name, one.in_force.get(name))
    own = set(one.columns_of("audit", table))
    is_release = table["tuples"].is_valid().to_numpy()
    for name in table.column_names:
        if name.startswith("diversity_"):
            fits &= ~is_release | (table[name].is_valid().to_numpy() == (name in own))
    return fits


def _equals(table: pa.Table, name: str, value: float | None) -> NDArray[np.bool_]:
    """Return (rows,) whether each row states a number, or the lack of one."""
    if name not in table.column_names:
        return np.full(table.num_rows, value is None)
    column = table[name].to_pandas()
    return np.asarray(column.isna() if value is None else np.isclose(column.astype(float), value, rtol=1e-12))


def spans(
    outputs: RunOutputs, classes: ReleasedClasses, given: Sequence[Guarantees], of_release: NDArray[np.int64]
) -> Iterator[Span]:
    """Yield the releases of each configuration that has any; of a single configuration all rows.

    ``of_release``: ``configuration_of`` the releases
    """
    audit = outputs.audit
    if audit is None or len(given) == 1:
        yield Span(given[0], outputs, classes, np.ones(len(classes.released), np.bool_))
        return
    common = set.intersection(*(set(one.policy.members) for one in given))
    for place, one in enumerate(given):
        own = of_release == place
        if not own.any():
            continue
        has_own = np.bincount(classes.audit, own, minlength=classes.count) > 0
        yield Span(
            one,
            _under(outputs, audit, one),
            replace(classes, judged=own),
            (has_own | (classes.releases == 0))[classes.released],
            frozenset(one.policy.members) - common,
        )


def _under(outputs: RunOutputs, audit: pa.Table, one: Guarantees) -> RunOutputs:
    """Return the outputs with the policy and the columns of one configuration; a missing diversity counts as 0."""
    audit = audit.select([name for name in one.columns_of("audit", audit) if name in audit.column_names])
    for place, name in enumerate(audit.column_names):
        if name.startswith("diversity_"):
            audit = audit.set_column(place, name, pc.fill_null(audit[name], 0))
    released = outputs.released.select(one.columns_of("released", outputs.released))
    return replace(outputs, policy=one.policy, released=released, audit=audit)


def in_force(audit: pa.Table, given: Sequence[Guarantees], of_release: NDArray[np.int64]) -> Check:
    """Check that each release was made under the given configurations, and states the values that they have."""
    findings: list[Finding] = []
    for place, one in enumerate(given):
        own = of_release == place
        whose = "the configuration" if len(given) == 1 else one.name
        for name, value in one.in_force.items():
            wrong = np.flatnonzero(own & ~_equals(audit, name, value))
            findings += _found(audit, wrong, name, f"says {name}", f", and {whose} {number_text(value)}")
    unknown = of_release < 0
    if STATED in audit.column_names:
        digests = [one.digest for one in given]
        whose = f"that of the configuration is {digests[0]}" if len(given) == 1 else "none of those given has it"
        for digest in audit[STATED].unique().drop_null().to_pylist():
            if digest not in digests:
                wrong = np.flatnonzero(_states_hash(audit, digest))
                findings += _found(audit, wrong, STATED, f"says {STATED}", f", and {whose}", f"; {_REMEDY}")
        unknown &= audit[STATED].is_null().to_numpy()
    models = "; ".join(f"{one.name} has {one.models}" for one in given)
    why = f" among them, that no given configuration has: {models}"
    findings += _found(audit, np.flatnonzero(unknown), "k", "says values in force, k", why, f"; {_REMEDY}")
    if len(given) == 1:
        return judged("in force", f"{given[0].models}, in every release", findings)
    counts = np.bincount(of_release[of_release >= 0], minlength=len(given)).tolist()
    parts = (f"{one.models}, in {count:,} releases of {one.name}" for one, count in zip(given, counts, strict=True))
    return judged("in force", "; ".join(parts), findings)


def _found(
    audit: pa.Table, wrong: NDArray[np.int64], name: str, says: str, why: str, remedy: str = ""
) -> Iterator[Finding]:
    """Yield one finding about all releases of a kind, with what the first one states in a column between two texts."""
    if len(wrong):
        release = audit.slice(int(wrong[0]), 1).to_pylist()[0]
        others = f", and so do {len(wrong) - 1:,} more releases" if len(wrong) > 1 else ""
        stated = release[name] if isinstance(release[name], str) else number_text(release[name])
        yield Finding(f"{says} {stated}{why}{others}{remedy}", release["shard"], release["release_id"])


def columns(
    outputs: RunOutputs,
    audit: pa.Table,
    classes: ReleasedClasses,
    given: Sequence[Guarantees],
    of_release: NDArray[np.int64],
) -> Check:
    """Check that releases, and rows under them, have values only in the columns that their configuration publishes.

    The other checks of a configuration do not read these columns. A release of an unknown configuration may have any.
    """
    findings: list[Finding] = []
    for place, one in enumerate(given):
        for name in sorted({*audit.column_names} - {*one.columns_of("audit", audit)}):
            wrong = audit[name].is_valid().to_numpy() & (of_release == place)
            findings += at_releases(audit, wrong, f"has a value in {name!r}, which {one.name} does not publish")
    for name in outputs.released.column_names:
        having = [place for place, one in enumerate(given) if name in one.columns_of("released", outputs.released)]
        may_have = np.bincount(classes.audit, np.isin(of_release, [-1, *having]), minlength=classes.count) > 0
        wrong = outputs.released[name].is_valid().to_numpy() & ~may_have[classes.released]
        if wrong.any():
            what = "holds values that no configuration of their releases publishes"
            findings.append(Finding(f"column {name!r} of released {what}, in {rows_text(np.flatnonzero(wrong))}"))
    return judged("columns", "values only where the configuration of the release publishes them", findings)


def number_text(value: float | None) -> str:
    """Return a value in force as text."""
    return "none" if value is None else f"{value:.12g}"
