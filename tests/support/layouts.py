"""Layouts of small configurations: a policy, and the types of the source's columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crenel.anonymity.algorithms.castle.algorithm import CASTLE, CastleParameters
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.model.secret import NO_KEY, SubjectKey
from crenel.jobs.config.load import Config, Source
from crenel.jobs.pipeline.layout import Layout, SourceColumns, layout
from crenel.operators.encode.encoder import EncodePlan

NOISE = SamplingAndNoise(0.5, 1.0)
TIMED = CastleParameters(9, delay_event_time=1000)


def configured(policy: Policy, **settings: Any) -> Config:
    """Return a job of CASTLE with some of its settings."""
    of_castle = {"algorithm": CASTLE, "parameters": CastleParameters(9)}
    of_all = {"privacy": Privacy(2), "sampling_and_noise": None, "shards": Shards(), "seed": None}
    of_job = {"source": Source(""), "sinks": {"released": {}}, "flink": {}, "accept_duplicates": False}
    return Config(policy, **{**of_castle, **of_all, **of_job, "subject_key": NO_KEY, **settings})


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
) -> EncodePlan:
    """Return the plan of encode with other settings."""
    return replace(found.encode, shards=shards, keys=keys, subject_key=subject_key, null_text=null_text)
