"""Regions file, which ``crenel regions`` writes and ``shards.regions`` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isclose, nextafter
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from crenel.anonymity.model.attributes import EXACT, Numeric, QuasiIdentifier
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.explain import explain, listed
from crenel.anonymity.model.fields import Column, Natural, Real
from crenel.anonymity.model.fingerprint import hierarchy_digest
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.region_tree import Branch, Cut, Region, RegionTree
from crenel.settings_file import FileSection, read

_HEAD = """\
# For 'shards: {{count: {count}, by: regions, regions: FILE}}': learned by 'crenel regions' from {rows:,} tuples.
# A tuple goes left where its value is below the cut, or stands before it in the hierarchy, and right elsewhere.
# share: of the tuples; loss: the mean InfoLoss of {members} tuples of the shard that are drawn at random.
# The cuts are quantiles of the sample: keep the file as the configuration is kept.
"""
_PRIVATE_HEAD = """\
# For 'cells: {{partition: FILE}}': learned by 'crenel regions --private {epsilon:g}'. This epsilon is spent for each
# person whose record was read, beside that of the windows of a job.
# A tuple goes left where its value is below the cut, or stands before it in the hierarchy, and right elsewhere.
# loss: of the cell's declared box; share: 1 / cells.
"""
_ANEW = "learn the regions anew with 'crenel regions'"

_Share = Annotated[Real, Field(ge=0, le=1)]


class _Attribute(FileSection):
    domain: tuple[Real, Real] | None = Field(
        None, description="[lowest, highest], or null for a range that is observed"
    )
    hierarchy: Column | None = Field(None, description="the hash of a hierarchy, as 'crenel regions' writes it")


class _RegionNode(FileSection):
    """A cut with two sides, or a region."""

    cut: Column | None = Field(None, description="a quasi-identifier")
    below: Real | None = Field(None, description="for a numeric one, a number: what is below it goes left")
    before: str | None = Field(None, description="for a categorical one, a value: what stands before it goes left")
    left: _RegionNode | None = Field(None, description="a mapping such as {shard: 0, share: 0.5, loss: 0.2}, or a cut")
    right: _RegionNode | None = Field(None, description="a mapping such as {shard: 1, share: 0.5, loss: 0.2}, or a cut")
    shard: Natural | None = Field(None, description="a whole number, 0 or more")
    share: _Share | None = Field(None, description="a number from 0 to 1")
    loss: _Share | None = Field(None, description="a number from 0 to 1")


class _File(FileSection):
    version: Literal["1"] = Field(description="1")
    epsilon: Annotated[Real, Field(ge=0)] | None = Field(
        None, description="a number, 0 where the cuts were declared or learned from other persons' data, or null"
    )
    attributes: dict[Column, _Attribute] = Field(description="the quasi-identifiers, as 'crenel regions' writes them")
    tree: _RegionNode = Field(description="a region, or a cut with 'left' and 'right'")


def regions_text(policy: Policy, tree: RegionTree, rows: int, members: int) -> str:
    """Return the text of a file that ``read_regions`` reads the same tree from.

    Parameters
    ----------
    rows : size of the sample that the tree was learned from
    members : number of tuples behind the stated losses
    """
    numbers = iter(range(len(tree)))
    content = {
        "version": 1,
        **({} if tree.epsilon is None else {"epsilon": tree.epsilon}),
        "attributes": {attribute.name: _described(attribute) for attribute in policy.attributes},
        "tree": _written(tree.root, policy.coded, numbers),
    }
    text = yaml.safe_dump(content, default_flow_style=None, sort_keys=False, allow_unicode=True, width=1000)
    if tree.epsilon is not None:
        return _PRIVATE_HEAD.format(epsilon=tree.epsilon) + text
    return _HEAD.format(count=len(tree), rows=rows, members=members) + text


def read_regions(path: Path, policy: Policy, count: int | None) -> RegionTree:
    """Read the regions file of a job.

    Raises
    ------
    ConfigError
        Lists all problems: a missing file, other attributes, another domain or hierarchy, or a number of regions other
        than ``count``; None: any number.
    """
    try:
        file = _File.model_validate(read(path))
    except ValidationError as error:
        raise ConfigError(path, [problem for _, problem in explain(error, _File)]) from None
    if problems := list(_unlike(file.attributes, policy)):
        raise ConfigError(path, problems)
    reader = _Reader(policy, [], [])
    bounds = {attribute.name: _bounds(attribute) for attribute in policy.attributes}
    root = reader.branch("tree", file.tree, bounds)
    problems, regions = reader.problems, len(reader.shards)
    if not problems and reader.shards != list(range(regions)):
        problems.append(f"tree: its shards must be numbered from 0 to {regions - 1}, from left to right; {_ANEW}")
    if not problems and count is not None and regions != count:
        problems.append(
            f"tree: has {regions} regions, and shards.count is {count}; set it to {regions}, or {_ANEW} --count {count}"
        )
    tree = RegionTree.of(root, file.epsilon)
    if not problems and not isclose(float(tree.share.sum()), 1, abs_tol=1e-3):
        problems.append(f"tree: the shares of its regions must add up to 1; {_ANEW}")
    if problems:
        raise ConfigError(path, problems)
    return tree


def _described(attribute: QuasiIdentifier) -> dict[str, Any]:
    if not isinstance(attribute, Numeric):
        return {"hierarchy": hierarchy_digest(attribute.hierarchy)}
    return {"domain": None if attribute.domain is None else [_short(end) for end in attribute.domain]}


def _short(number: float) -> float:
    """Return whole numbers as integers."""
    return int(number) if number == round(number) and abs(number) < EXACT else float(number)


def _written(branch: Branch, attributes: tuple[QuasiIdentifier, ...], numbers: Iterator[int]) -> dict[str, Any]:
    if isinstance(branch, Region):
        return {"shard": next(numbers), "share": round(branch.share, 6), "loss": round(branch.loss, 4)}
    attribute = attributes[branch.attribute]
    if isinstance(attribute, Numeric):
        where: dict[str, Any] = {"below": _short(branch.value)}
    else:
        where = {"before": attribute.hierarchy.labels[int(branch.value)]}
    sides = {
        side: _written(below, attributes, numbers) for side, below in (("left", branch.left), ("right", branch.right))
    }
    return {"cut": attribute.name, **where, **sides}


def _unlike(attributes: Mapping[str, _Attribute], policy: Policy) -> Iterator[str]:
    """Yield the differences between a file's attributes and the policy's."""
    now = {attribute.name: attribute for attribute in policy.attributes}
    if attributes.keys() != now.keys():
        yield f"attributes: are others than policy.quasi_identifiers, which are {listed(list(now))}; {_ANEW}"
        return
    for name, attribute in now.items():
        was, place = attributes[name], f"policy.quasi_identifiers.{name}"
        if isinstance(attribute, Numeric):
            if was.hierarchy is not None:
                yield f"attributes.{name}.hierarchy: {place} is numeric and has none; {_ANEW}"
            elif was.domain != attribute.domain:
                yield f"attributes.{name}.domain: is another one than {place}.domain; {_ANEW}"
        elif was.hierarchy != hierarchy_digest(attribute.hierarchy):
            yield (
                f"attributes.{name}.hierarchy: is of another one than {place}.hierarchy is, with policy.missing as it "
                f"is; {_ANEW}"
            )


def _bounds(attribute: QuasiIdentifier) -> tuple[float, float]:
    """Return the minimum and maximum of the values that a cut is compared with."""
    if isinstance(attribute, Numeric):
        return attribute.domain or (-inf, inf)
    return 0, attribute.hierarchy.leaves - 1


_NOWHERE = Region(0, 0)


@dataclass(frozen=True)
class _Reader:
    """Builder of a tree from nodes, which collects problems, and the shard numbers from left to right."""

    policy: Policy
    problems: list[str]
    shards: list[int]

    def branch(self, place: str, node: _RegionNode, bounds: Mapping[str, tuple[float, float]]) -> Branch:
        """Return a branch; ``bounds``: the minimum and maximum of each attribute in it."""
        given = {name for name, value in node if value is not None}
        if node.shard is not None and node.share is not None and node.loss is not None and len(given) == 3:
            self.shards.append(node.shard)
            return Region(node.share, node.loss)
        names = [attribute.name for attribute in self.policy.coded]
        if node.cut is not None and node.cut not in names:
            self.problems.append(f"{place}.cut: is no quasi-identifier; one of {listed(names)}")
            return _NOWHERE
        number = names.index(node.cut) if node.cut is not None else 0
        attribute = self.policy.coded[number]
        where = "below" if isinstance(attribute, Numeric) else "before"
        if node.left is None or node.right is None or given != {"cut", where, "left", "right"}:
            either = "'cut', 'below' (a number) or 'before' (a category), 'left' and 'right'"
            self.problems.append(
                f"{place}: must hold either 'shard', 'share' and 'loss', or {either}, and nothing else"
            )
            return _NOWHERE
        value = self._value(attribute, node)
        least, most = bounds[attribute.name]
        if value is None or not least < value <= most:
            wrong = "is no value of its hierarchy" if value is None else "leaves no value on one of its sides"
            self.problems.append(f"{place}.{where}: {wrong}; {_ANEW}")
            return _NOWHERE
        last = nextafter(value, -inf) if isinstance(attribute, Numeric) else value - 1
        left = self.branch(f"{place}.left", node.left, {**bounds, attribute.name: (least, last)})
        right = self.branch(f"{place}.right", node.right, {**bounds, attribute.name: (value, most)})
        return Cut(number, value, left, right)

    @staticmethod
    def _value(attribute: QuasiIdentifier, node: _RegionNode) -> float | None:
        if isinstance(attribute, Numeric):
            return node.below
        leaf = int(attribute.hierarchy.find([node.before])[0])
        return float(leaf) if 0 <= leaf < attribute.hierarchy.leaves else None
