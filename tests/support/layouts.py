"""Layouts of small configurations: a policy, and the types of the source's columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import NoiseWithinRelease, Privacy, SamplingAndNoise
from crenel.anonymity.model.secret import SubjectKey
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.layout import Layout, SourceColumns, layout
from crenel.operators.plan import AnonymizationPlan
from crenel.settings import Settings

NOISE = SamplingAndNoise(0.5, 1.0)
TIMED = Castle(Delay(9, 1000))


def configured(policy: Policy, **settings: Any) -> Config:
    """Return a job of CASTLE with some of its settings."""
    of_job = {f.name for f in fields(Config)} - {"settings"}
    job = {name: settings.pop(name) for name in [*settings] if name in of_job}
    privacy = Privacy(2, noise_within_release=NoiseWithinRelease(1) if policy.noised else None)
    return Config(Settings(policy=policy, **{"algorithm": Castle(Delay(9)), "privacy": privacy, **settings}), **job)


def layout_of(
    policy: Policy,
    columns: Mapping[str, str],
    where: str = "source",
    *,
    has_watermark: bool = False,
    problems: tuple[str, ...] = (),
    **settings: Any,
) -> Layout:
    """Return the layout of a job with some of its settings."""
    return layout(configured(policy, **settings), SourceColumns(columns, has_watermark, problems), where)


def encode_plan(
    found: Layout, shards: Shards, keys: tuple[int, ...], subject_key: SubjectKey, null_text: str = ""
) -> AnonymizationPlan:
    """Return the plan with other settings."""
    return replace(found.plan, shards=shards, keys=keys, subject_key=subject_key, null_text=null_text)
