"""Requests to forget subjects, addressed to the shards that may know them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pandas as pd
from pyflink.table import DataTypes
from pyflink.table.udf import ScalarFunction, udf

from crenel.anonymity.model.policy import SHARD_BY_SUBJECT
from crenel.operators.encode import hashing
from crenel.operators.encode.columns import Batch, Read
from crenel.operators.plan import AnonymizationPlan
from crenel.state.operator import Forget


def code_of(subject: np.uint64, hash_key: str) -> str:
    """Return the code of a person in the record of the erasure: 16 hexadecimal digits.

    It follows from the subject and the key, and does not reveal the hash that the state of other jobs may contain.
    """
    hashed = np.asarray(subject, "<u8").tobytes()
    key = hash_key.encode("ascii")
    return hashlib.blake2b(hashed, digest_size=8, key=key, person=b"crenel-forget").hexdigest()


def requests(plan: AnonymizationPlan, subject: Read, column: Any) -> tuple[list[list[int]], list[bytes | None]]:
    """Return the requests of one batch.

    Parameters
    ----------
    plan : of the job, with the keys of its shards
    subject : form of the only column, which contains subjects as the source does
    column : its values, one per row

    Returns
    -------
    keys : (rows,) keys of the shards for each request; none where a subject is missing
    blobs : (rows,) ``Forget.to_bytes``; None where a subject is missing
    """
    subjects, missing = Batch((column,)).subject(subject, plan.subject_key.hash_key)
    by_subject = plan.shards.by == SHARD_BY_SUBJECT
    known = np.ones(len(subjects), np.bool_) if missing is None else ~missing
    shards = hashing.slices(subjects, len(plan.keys)).tolist()
    keys: list[list[int]] = [
        [] if not there else [plan.keys[shard]] if by_subject else list(plan.keys)
        for shard, there in zip(shards, known.tolist(), strict=True)
    ]
    blobs = [
        Forget(person, code_of(person, plan.subject_key.hash_key)).to_bytes() if there else None
        for person, there in zip(subjects, known.tolist(), strict=True)
    ]
    return keys, blobs


class ForgetFunction(ScalarFunction):  # type: ignore[misc]
    """Flink function that makes requests of each Arrow batch."""

    def __init__(self, plan: AnonymizationPlan, subject: Read) -> None:
        self._plan, self._subject = plan, subject

    def eval(self, column: Any) -> pd.DataFrame:
        keys, blobs = requests(self._plan, self._subject, column)
        return pd.DataFrame({"k": pd.Series(keys, dtype=object), "b": pd.Series(blobs, dtype=object)})

    def is_deterministic(self) -> bool:
        # Flink must not evaluate it twice.
        return False


def forget_function(plan: AnonymizationPlan, subject: Read) -> Any:
    """Return the function ``crenel_forget(...)``, whose result is ``ROW<k ARRAY<INT>, b BYTES>``.

    Arguments are those of ``requests``.
    """
    result = DataTypes.ROW(
        [DataTypes.FIELD("k", DataTypes.ARRAY(DataTypes.INT())), DataTypes.FIELD("b", DataTypes.BYTES())]
    )
    return udf(ForgetFunction(plan, subject), result_type=result, func_type="pandas")
