"""Profiles of a program's data, before it has settings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from crenel.anonymity.model.values import sql_type
from crenel.columns import decoded, decoded_type
from crenel.evidence.profile.profile import SMALL, Profile, measure
from crenel.frames import Frame


def profile(data: Any, *, rows: int = 100_000, k: int = SMALL) -> Profile:
    """Measure how far the columns of data, and their pairs, single rows out.

    The profile holds counts and shares, and no value of a record.

    Parameters
    ----------
    data : as for ``anonymize``
    rows : maximum number of rows to read, the first ones
    k : size below which a group of rows with equal values counts as small

    Examples
    --------
    >>> import crenel, pyarrow as pa
    >>> profile = crenel.profile(pa.table({"age": [31, 34, 31, 58], "sex": ["f", "m", "f", None]}), k=3)
    >>> age, sex = profile.columns
    >>> age.distinct, age.unique, sex.missing
    (3, 0.5, 0.25)
    >>> print(profile)
    4 rows
    column  type    form   distinct  missing  occur once  unique rows  below 3
    age     BIGINT  whole         3     0.0%       66.7%        50.0%   100.0%
    sex     STRING  text          2    25.0%       50.0%        50.0%   100.0%
    <BLANKLINE>
    pair of columns  unique rows  below 3
    age + sex              50.0%   100.0%
    """
    return measure(*sample_of(data, rows), k)


def sample_of(data: Any, rows: int) -> tuple[pa.Table, dict[str, str]]:
    """Return the first rows of data without dictionary encoding, and the SQL type of each column."""
    frame = Frame.of(data)
    batches, left = [], rows
    for batch in frame.batches():
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
        if not left:
            break
    table = pa.Table.from_batches(batches, frame.schema)
    table = table.unify_dictionaries() if any(map(pa.types.is_dictionary, table.schema.types)) else table
    plain = pa.table({name: decoded(table.column(name)) for name in table.column_names})
    return plain, {f.name: sql_type(decoded_type(f.type)) for f in frame.schema}
