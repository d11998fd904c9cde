"""Files of regions that divide ages from 0 to 99."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import yaml


def write_ages(path: Path, *cuts: int) -> None:
    """Write a file of regions of ages that begin at 0 and at each cut, in ascending order; they cost no epsilon."""
    ends = (0, *cuts, 100)
    leaves = [
        {"shard": number, "share": (end - begin) / 100, "loss": (end - begin) / 100}
        for number, (begin, end) in enumerate(pairwise(ends))
    ]
    tree: dict[str, object] = dict(leaves.pop())
    for cut, leaf in zip(reversed(cuts), reversed(leaves), strict=True):
        tree = {"cut": "age", "below": cut, "left": leaf, "right": tree}
    content = {"version": "1", "epsilon": 0, "attributes": {"age": {"domain": [0, 99]}}, "tree": tree}
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
