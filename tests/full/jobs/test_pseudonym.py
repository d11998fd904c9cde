"""Codes of persons beside released rows, in a whole job on the mini-cluster."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest

from crenel.jobs.config.load import load
from crenel.operators.encode.hashing import text_codes
from tests.support.launch import Host
from tests.support.visits import RELEASED, Run, visits, write

pytestmark = pytest.mark.flink

CODED = ("--set", "policy.pseudonym={column: patient, scope: stream, accept_linkable: true}")
ENDS = ("--set", "policy.quasi_identifiers.wage={type: numeric, ends: 500}")


@pytest.fixture(scope="module")
def run(mini: Host, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = write(tmp_path_factory.mktemp("pseudonym") / "job", visits())
    ended = mini.crenel("run", path, "--parallelism", "2", "--json", *CODED, *ENDS)
    assert ended.returncode == 0, ended.stderr
    return Run(path.parent, ended)


def test_each_row_has_the_code_of_its_person_from_the_key_of_the_configuration(run: Run) -> None:
    subject_key = load(run.folder / "job.yaml").subject_key
    key = subject_key.pseudonym_key

    def code(person: str) -> str:
        (subject,) = text_codes(np.array([person], object), subject_key.hash_key, repeated=False).tolist()
        message = struct.pack("<Qq", subject, 0)
        return hashlib.blake2b(message, digest_size=16, key=key, person=b"crenel-stream").hexdigest()

    person = {str(row["id"]): row["person"] for row in visits()}
    rows = run.sink("released", (*RELEASED, "patient"))
    assert len(rows) > 2000
    assert all(row["patient"] == code(person[row["id"]]) for row in rows)
    assert "policy.pseudonym.accept_linkable: true shows which rows are one person's" in run.ended.stderr


def test_intervals_end_on_their_grid_around_the_values(run: Run) -> None:
    wage = {str(row["id"]): float(row["wage"]) for row in visits()}
    rows = run.sink("released", (*RELEASED, "patient"))
    assert all(float(row[f"wage_{end}"]) % 500 == 0 for row in rows for end in ("min", "max"))
    assert all(float(row["wage_min"]) <= wage[row["id"]] <= float(row["wage_max"]) for row in rows)
