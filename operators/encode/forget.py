"""Requests to forget subjects, addressed to the shards that may know them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyflink.table import DataTypes
from pyflink.table.udf import ScalarFunction, udf

from crenel.anonymity.model.secret import SubjectKey
from crenel.operators.encode import hashing
from crenel.operators.encode.columns import Batch, Read
from crenel.state.operator import Forget


@dataclass(frozen=True)
class ForgetPlan:
    """Form and addressees of the requests.

    Attributes
    ----------
    subject : form of the only column, which contains subjects as the source does
    subject_key : as in ``crenel.operators.encode.encoder.EncodePlan``
    keys : (shards,) the Flink key of each shard
    by_subject : whether the subject alone determines a person's shard
    """

    subject: Read
    subject_key: SubjectKey
    keys: tuple[int, ...]
    by_subject: bool


def code_of(subject: np.uint64, hash_key: str) -> str:
    """Return the code of a person in the record of the erasure: 16 hexadecimal digits.

    It follows from the subject and the key, and does not reveal the hash that the state of other jobs may contain.
    """
    hashed = np.asarray(subject, "<u8").tobytes()
    key = hash_key.encode("ascii")
    return hashlib.blake2b(hashed, digest_size=8, key=key, person=b"crenel-forget").hexdigest()


def requests(plan: ForgetPlan, *series: Any) -> tuple[list[list[int]], list[bytes | None]]:
    """Return the requests of one batch.

    Parameters
    ----------
    series : the arguments that ``plan`` numbers, each with one value per row

    Returns
    -------
    keys : (rows,) keys of the shards for each request; none where a subject is missing
    blobs : (rows,) ``Forget.to_bytes``; None where a subject is missing
    """
    subjects, missing = Batch(series).subject(plan.subject, plan.subject_key.hash_key)
    known = np.ones(len(subjects), np.bool_) if missing is None else ~missing
    shards = hashing.slices(subjects, len(plan.keys)).tolist()
    keys: list[list[int]] = [
        [] if not there else [plan.keys[shard]] if plan.by_subject else list(plan.keys)
        for shard, there in zip(shards, known.tolist(), strict=True)
    ]
    blobs = [
        Forget(subject, code_of(subject, plan.subject_key.hash_key)).to_bytes() if there else None
        for subject, there in zip(subjects, known.tolist(), strict=True)
    ]
    return keys, blobs


class ForgetFunction(ScalarFunction):  # type: ignore[misc]
    """Flink function that makes requests of each Arrow batch."""

    def __init__(self, plan: ForgetPlan) -> None:
        self._plan = plan

    def eval(self, *series: Any) -> pd.DataFrame:
        keys, blobs = requests(self._plan, *series)
        return pd.DataFrame({"k": pd.Series(keys, dtype=object), "b": pd.Series(blobs, dtype=object)})

    def is_deterministic(self) -> bool:
        # Flink must not evaluate it twice.
        return False


def forget_function(plan: ForgetPlan) -> Any:
    """Return the function ``crenel_forget(...)``, whose result is ``ROW<k ARRAY<INT>, b BYTES>``."""
    result = DataTypes.ROW(
        [DataTypes.FIELD("k", DataTypes.ARRAY(DataTypes.INT())), DataTypes.FIELD("b", DataTypes.BYTES())]
    )
    return udf(ForgetFunction(plan), result_type=result, func_type="pandas")
