"""Settings of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.model.policy import Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise


@dataclass(frozen=True)
class Setting:
    """The settings of a replay, as a configuration states them.

    Attributes
    ----------
    algorithm : to run
    privacy : privacy models; a reference distribution has its codes (``crenel.jobs.pipeline.references.with_codes``)
    parameters : of the algorithm
    shards : division of the sample
    seed : determines every random choice; a job with the same seed makes the same choices
    sampling_and_noise : sampling and noise; None: neither
    """

    algorithm: Algorithm
    privacy: Privacy
    parameters: Any
    shards: Shards = field(default_factory=Shards)
    seed: int = 0
    sampling_and_noise: SamplingAndNoise | None = None
