"""Codes of the values of a reference distribution, as encode computes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from crenel.operators.encode import hashing
from crenel.operators.encode.columns import Batch, Read


def codes_of(values: Sequence[str], read: Read, key: str, null_text: str | None) -> list[int | None]:
    """Return the code of each value of a published column, None where no column value has this text.

    Parameters
    ----------
    values : as text
    read : form of the column; for ``single``, a number is rounded to float32, as in such a column
    key, null_text : as for ``Batch.published_codes``
    """
    if read.kind == "text":
        alone = Read(read.name, "text", 0, longest=read.longest, padded=read.padded, neutralized=read.neutralized)
        texts = pd.Series([*values, ""], dtype=object)
        codes = Batch((texts,)).published_codes(alone, key, None, null_text)
        return [int(code) for code in codes[:-1]]
    return [_number_code(text, read, null_text) for text in values]


def _number_code(text: str, read: Read, null_text: str | None) -> int | None:
    if null_text is not None and text in ("", null_text):
        return int(hashing.NULL)
    if read.kind == "single":
        rounded = hashing.code_of(text, "real")
        return None if rounded is None else int(hashing.real_codes(np.array([float(np.float32(text))]))[0])
    code = hashing.code_of(text, read.kind)
    return None if code is None else int(code)
