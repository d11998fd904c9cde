"""Published values as lists, which releases hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.buffer.members import listed

_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.timestamp("ms"): st.integers(0, 2**50),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
}


@pytest.mark.parametrize("kind", _VALUES, ids=str)
@given(data=st.data())
def test_values_are_those_that_arrow_lists_with_their_types(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(_VALUES[kind] | data.draw(st.sampled_from([st.none(), _VALUES[kind]])), max_size=6))
    column = pa.array(values, pa.int64()).cast(kind) if kind == pa.timestamp("ms") else pa.array(values, kind)
    first = data.draw(st.integers(0, len(values)))
    found = listed(column.slice(first))
    assert found == values[first:]
    assert [*map(type, found)] == [*map(type, values[first:])]
