"""What the operator must know of a job: plain, frozen, and shipped to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from anonymity.policy import CastleParameters, DifferentialPrivacy, Policy, Privacy
from anonymity.window.parameters import WindowParameters


@dataclass(frozen=True)
class OperatorPlan:
    """One job's anonymiser.

    Attributes
    ----------
    policy, privacy, parameters : what is promised, and how
    seed : fixes every random choice; None: drawn from the operating system when a shard first sees a tuple
    members : names and types of the columns that are published as they are
    integers : names of the numeric quasi-identifiers that are published as integers
    encoded : names of the columns that encode reads, to which ``state.block.Rejected.column`` refers
    fingerprint : hash by field, of what a restored shard must have in common with this job
    differential_privacy : sampling and noise; None: neither
    extremes : the least and the largest value that a column holds, of the numeric quasi-identifiers whose noise no
        domain bounds
    """

    policy: Policy
    privacy: Privacy
    parameters: CastleParameters | WindowParameters
    seed: int | None
    members: pa.Schema
    integers: frozenset[str]
    encoded: tuple[str, ...]
    fingerprint: dict[str, str]
    differential_privacy: DifferentialPrivacy | None = None
    extremes: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def representative(self) -> bool:
        """Whether a number is published as one value, which stands for its group, and not as an interval."""
        return isinstance(self.parameters, WindowParameters) and self.parameters.output == "representative"
