"""Errors of functions in a worker, with a report that only the client of this job accepts."""

from __future__ import annotations

import pickle
import traceback

import pytest

from crenel.anonymity.model.errors import InvariantError
from crenel.operators import signed_errors
from crenel.operators.shards.function import ShardFunction
from crenel.operators.signed_errors import signed_error
from tests.extension_points.broken import SAYS, Broken
from tests.support.fakes import Harness
from tests.support.operator_stream import KEY, block, planned


def test_an_error_of_a_shard_is_signed_with_the_key_of_who_built_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    function = ShardFunction(planned(Broken()))
    built = signed_errors._KEY
    shipped = pickle.loads(pickle.dumps(function))
    monkeypatch.setattr(signed_errors, "_KEY", b"that of the worker")
    with pytest.raises(InvariantError) as raised:
        Harness(shipped).element(KEY, block(0, 1).to_bytes())
    text = "".join(traceback.format_exception(raised.value))
    assert signed_error(text) is None
    monkeypatch.setattr(signed_errors, "_KEY", built)
    assert signed_error(text) == SAYS
    assert signed_error(text.replace("crenel:", "crenel:0")) is None
