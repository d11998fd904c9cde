"""What a replay is held to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.model.policy import Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise


@dataclass(frozen=True)
class Setting:
    """What a replay is held to, as a configuration says it.

    Attributes
    ----------
    algorithm : which one works
    privacy : what is promised; where it compares with a reference, that has its codes
        (``crenel.jobs.pipeline.references.with_codes``)
    parameters : of the algorithm
    shards : how the sample is divided
    seed : fixes every random choice; a job with the same seed makes the same
    sampling_and_noise : sampling and noise; None: neither
    """

    algorithm: Algorithm
    privacy: Privacy
    parameters: Any
    shards: Shards = field(default_factory=Shards)
    seed: int = 0
    sampling_and_noise: SamplingAndNoise | None = None
