"""Lookup of leaves where all known texts can be listed."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.builders.builder import Finder


def table_finder(leaves: dict[str, int]) -> Finder:
    """Return a finder that looks up each text in ``leaves``, the leaf of every known text."""

    def find(texts: NDArray[Any]) -> NDArray[np.intp]:
        return np.fromiter(map(leaves.get, texts, repeat(-1)), np.intp, len(texts))

    return find
