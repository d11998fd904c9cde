"""What a run left behind, as tables, whoever read them: files of a run, or a replay in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from crenel.anonymity.model.policy import Policy
from crenel.operators.column_names import CLOSING


@dataclass(frozen=True)
class Outputs:
    """The outputs of one run, as columns; names and meaning as in ``docs/outputs.md``.

    Ends of intervals, losses, and figures of noise are ``float64``; counts, shards, ids, positions and event times
    (epoch milliseconds) are ``int64``; kinds, reasons, generalized categories, and sensitive, noised and pass-through
    values are ``string``, as they were written. A missing value is null.

    Attributes
    ----------
    policy : by which the run worked
    released : one row a published tuple, its columns in the order of the sink
    audit : one row a release; None where the run kept none, and so the further ones
    suppressed : one row a suppressed tuple
    rejected : one row a row that was not let in
    further : the algorithm's own outputs, and ``forgotten`` and ``summary``, by the name of the sink
    closing : the closing records of a chained audit log, in the columns of ``audit``; None where the run kept none
    files : name and number of rows of each file of ``released``, in the order of its rows; None where it was not read
        from files
    """

    policy: Policy
    released: pa.Table
    audit: pa.Table | None = None
    suppressed: pa.Table | None = None
    rejected: pa.Table | None = None
    further: dict[str, pa.Table] = field(default_factory=dict)
    closing: pa.Table | None = None
    files: tuple[tuple[str, int], ...] | None = None

    @property
    def generalization(self) -> tuple[str, ...]:
        """The columns that the members of a release share, as ``released`` and ``audit`` have them."""
        held = set(self.released.column_names)
        names = (name for a in self.policy.quasi_identifiers for name in (f"{a.name}_min", f"{a.name}_max", a.name))
        return tuple(name for name in names if name in held)


def split_audit(log: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the releases of an audit log and its closing records, which are of no release."""
    closing = pc.fill_null(pc.equal(log["kind"], CLOSING), False)
    return log.filter(pc.invert(closing)), log.filter(closing)
