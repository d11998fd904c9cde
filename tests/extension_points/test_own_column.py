"""A column of ``audit`` that is declared in one line, in all that shows or reads the audit log."""

from __future__ import annotations

import pytest

import crenel
from crenel.evidence.verify.verdict import HOLDS
from crenel.operators import output_columns
from crenel.operators.rows import batch_type
from crenel.operators.shards.function import ShardFunction
from tests.extension_points.test_own_model import SETTINGS, VISITS
from tests.support.fakes import Harness
from tests.support.operator_stream import KEY, block, planned

OWN = output_columns.OutputColumn("members", "members", "LONG", "number of members", release_field="tuples")


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_columns, "_RELEASE", (*output_columns._RELEASE, OWN))


def test_audit_has_it_and_is_verified_and_reported() -> None:
    result = crenel.anonymize(VISITS, SETTINGS)
    assert result.audit["members"].to_pylist() == result.audit["tuples"].to_pylist() != []
    assert crenel.verify(result, SETTINGS).outcome == HOLDS
    assert "<h1>" in crenel.report(result, SETTINGS)


def test_the_operator_emits_it() -> None:
    plan = planned(crenel.Mondrian(crenel.Window(tuples=20)))
    names = batch_type(plan).get_field_types()[0]._element_type.get_field_names()
    place, tuples = names.index("members"), names.index("tuples")
    operator = Harness(ShardFunction(plan))
    operator.element(KEY, block(0, 60).to_bytes())
    assert [row[place] for row in operator.main] == [row[tuples] for row in operator.main] != []
