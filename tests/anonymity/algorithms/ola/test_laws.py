"""Invariants of OLA, on any stream, against a search that tries every node of the lattice in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import log2, prod
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.batch.suppress_to_satisfy import suppress_to_satisfy
from crenel.anonymity.algorithms.batch.windows import ShardOfWindows
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.ola.lattice import least_node, minimal_nodes
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.builtin import ALPHA, BETA, ENTROPY_L, RECURSIVE, T
from crenel.anonymity.model.attributes import Categorical, Noised, by_name
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, Sensitive
from crenel.anonymity.model.privacy_model import ConfiguredModels
from crenel.anonymity.model.reference import Reference
from examples.own_privacy_model import AT_MOST
from tests.support.drive import Kept, columns_of, hashes
from tests.support.example_counts import FEW, LAWS
from tests.support.linking import linking_of
from tests.support.mondrian_drive import MondrianSetting
from tests.support.settings import sensitive_of
from tests.support.source import IDENTITY, Finish, Push, Row
from tests.support.strategies import noises

TREES = (
    [("a", "ab", "*"), ("b", "ab", "*"), ("c", "cd", "*"), ("d", "cd", "*")],
    [
        ("0", "0-1", "0-3", "*"),
        ("1", "0-1", "0-3", "*"),
        ("2", "2-3", "0-3", "*"),
        ("3", "2-3", "0-3", "*"),
        ("9", "9", "9", "*"),
    ],
    [("x", "*"), ("y", "*"), ("z", "*")],
    [("only",)],
)


@dataclass(frozen=True)
class OlaSetting(MondrianSetting):
    algorithm: Ola  # type: ignore[assignment]


@dataclass(frozen=True)
class OlaCase:
    setting: OlaSetting
    rows: tuple[Row, ...]

    def steps(self, size: int) -> list[Push | Finish]:
        return [*(Push(self.rows[i : i + size]) for i in range(0, len(self.rows), size)), Finish()]


ILLNESSES, PAY = ("u", "u", "v", "w", None), ("low", "low", "mid", "high")


def reference(kind: Any, **shares: float) -> Reference:
    """Return a reference, with the codes that ``Setting.block`` gives its values; without shares, the stream so far."""
    tree = from_paths([(value, value[0], "*") for value in shares]) if kind == "hierarchical" else None
    return Reference(tuple(shares), tuple(shares.values()), tuple(hashes(shares).tolist()), kind, tree)


@st.composite
def models(draw: st.DrawFn, k: int, values: Sequence[str]) -> Sensitive:
    """Return the privacy models of a column; no set satisfies some of them."""
    further: ConfiguredModels = draw(
        st.sampled_from(
            (
                (),
                ((ALPHA, 0.5),),
                ((ALPHA, 0.7),),
                ((AT_MOST, 0.6),),
                ((ENTROPY_L, min(k, 1.8)),),
                ((RECURSIVE, (1.0, 2.0)),) if k > 1 else (),
                ((RECURSIVE, (3.0, 2.0)),) if k > 1 else (),
                ((T, 0.2),),
                ((T, 0.4), (ALPHA, 0.8)),
                ((BETA, 1.0),),
            )
        )
    )
    usual = dict(zip(dict.fromkeys(values), (0.5, 0.3, 0.2), strict=False))
    compared = draw(
        st.sampled_from(
            (
                reference("equal"),
                *(reference(kind, **usual) for kind in ("equal", "ordered", "hierarchical")),
            )
        )
    )
    compares = any(model.compares for model, _ in further)
    return sensitive_of(draw(st.integers(1, min(k, 3))), further, compared if compares else None)


@st.composite
def ola_cases(draw: st.DrawFn) -> OlaCase:
    trees = draw(st.lists(st.sampled_from(TREES), min_size=1, max_size=3))
    attributes = tuple(Categorical(from_paths(tree)).named(f"q{i}") for i, tree in enumerate(trees))
    k = draw(st.integers(1, 5))
    noise = draw(noises(k, confident=None)) if draw(st.booleans()) else None
    illness = st.tuples(st.just("s"), models(k, [value for value in ILLNESSES if value]))
    pay = st.tuples(st.just("pay"), models(k, PAY))
    single = dict(draw(st.just(()) | st.tuples(illness) | st.tuples(illness, pay)))
    privacy = Privacy(k, draw(st.integers(1, min(k, 2))), models={}, noise_within_release=noise, sensitive=single)
    policy = Policy(
        by_name(attributes),
        sensitive=("s", "pay"),
        noised=by_name(() if noise is None else (Noised((0.0, 6.0), 1.0).named("n"),)),
        passthrough=(IDENTITY,),
        subject=draw(st.sampled_from((None, "who"))),
    )
    tuples = draw(st.sampled_from((None, None, 20)))
    parameters = Ola(
        Window(tuples),
        draw(st.sampled_from((0.0, 0.1, 0.3, 0.29, 1.0))),
        draw(st.sampled_from(("precision", "discernibility", "entropy"))),
    )
    columns = [st.sampled_from([path[0] for path in tree]) for tree in trees]
    published = (st.sampled_from(ILLNESSES), st.sampled_from(PAY), *(st.integers(0, 6) for _ in policy.noised.values()))
    people = st.integers(0, draw(st.sampled_from((6, 30, 1000))))
    count = draw(st.sampled_from((0, 5, 12, 20, 30, 40)))
    row = st.tuples(st.tuples(*columns), st.tuples(*published), people)
    rows = draw(st.lists(row, min_size=count, max_size=count))
    made = tuple(
        Row(values, (*shown, i), None if policy.subject is None else who) for i, (values, shown, who) in enumerate(rows)
    )
    types = (pa.string(), pa.string(), *(pa.int64() for _ in policy.noised.values()), pa.int64())
    return OlaCase(OlaSetting(policy, privacy, parameters, types), made)


def run(case: OlaCase, size: int, *, restored: bool = False) -> list[Releases]:
    kept, outputs = Kept(case.setting), []
    for step in case.steps(size):
        outputs.append(kept.take(step))
        if restored:
            kept.restore()
    return outputs


Published = dict[tuple[int, ...], frozenset[int]]


def published(outputs: list[Releases], window: range) -> tuple[Published, set[int]]:
    """Nodes and members of each release of a window, and who was suppressed."""
    found: Published = {}
    suppressed: set[int] = set()
    for out in outputs:
        for i, (start, stop) in enumerate(zip(out.offsets, out.offsets[1:], strict=False)):
            members = frozenset(out.members[-1][start:stop])
            if members <= set(window):
                assert tuple(out.node[i].tolist()) not in found
                found[tuple(out.node[i].tolist())] = members
        suppressed |= {p for p in out.suppressed_position.tolist() if p in window}
    return found, suppressed


def shown(outputs: list[Releases]) -> dict[int, tuple[Any, ...]]:
    """Return the published values of each tuple."""
    return {values[-1]: values for out in outputs for values in zip(*out.members, strict=True)}


class Exhaustive:
    """Every node of the lattice of one window, of which some tuples may have been suppressed before.

    A shard whose window is still open says whether tuples may leave together: other tests judge its privacy models.
    """

    def __init__(self, case: OlaCase, window: range) -> None:
        self.case, self.start, self.window = case, window.start, list(window)
        self.levels = [attribute.hierarchy.level_nodes().tolist() for attribute in case.setting.policy.categorical]
        labels = [list(attribute.hierarchy.labels) for attribute in case.setting.policy.categorical]
        self.leaf = {
            p: [of.index(value) for of, value in zip(labels, case.rows[p].values, strict=True)] for p in window
        }
        kept = Kept(replace(case.setting, algorithm=Ola()))
        for step in (Push(case.rows[: window.start]), Finish(), Push(case.rows[window.start : window.stop])):
            kept.take(step)
        assert isinstance(kept.live, ShardOfWindows)
        self.shard, self.kept = kept.live, dict[frozenset[int], bool]()
        self.satisfying = self._satisfying()
        self.dropped: set[int] = set()
        if not self.satisfying:
            self.dropped = {window.start + i for i, _ in suppress_to_satisfy(self.shard)}
            self.window = [p for p in window if p not in self.dropped]
            self.satisfying = self._satisfying() if self.window else []

    def alike(self, node: tuple[int, ...]) -> dict[tuple[int, ...], set[int]]:
        found: dict[tuple[int, ...], set[int]] = defaultdict(set)
        for p in self.window:
            found[tuple(of[level][leaf] for of, level, leaf in zip(self.levels, node, self.leaf[p], strict=True))].add(
                p
            )
        return found

    def classes(self, node: tuple[int, ...]) -> tuple[Published, set[int]]:
        found = self.alike(node)
        kept = {nodes: frozenset(members) for nodes, members in found.items() if self.keeps(members)}
        return kept, set(self.window) - {p for members in kept.values() for p in members}

    def keeps(self, members: set[int]) -> bool:
        kept = self.kept.get(of := frozenset(members))
        if kept is None:
            kept = self.kept[of] = self.shard.first_broken(np.array(sorted(members)) - self.start) == -1
        return kept

    def may_leave(self, found: Published, suppressed: set[int], node: tuple[int, ...], outputs: list[Releases]) -> bool:
        """Return whether the classes of a node are released so, except for members suppressed by confidence."""
        classes, of_none = self.classes(node)
        linking = linking_of(self.case.setting.policy, self.case.setting.privacy)
        if linking is None:
            return (found, suppressed) == (classes, of_none)
        released = {p for members in found.values() for p in members}
        if not found.keys() <= classes.keys() or suppressed != set(self.window) - released or released & of_none:
            return False
        rows, published = self.case.rows, shown(outputs)
        for nodes, members in classes.items():
            left = found.get(nodes, frozenset())
            withheld, of_class = members - left, [rows[p] for p in members]
            if not left <= members or (left and not self.keeps(set(left))):
                return False
            if left and linking.shows_too_much(
                [rows[p] for p in left], [published[p] for p in left], [rows[p] for p in withheld], whole=True
            ):
                return False
            lonely = {p for p in withheld if linking.may_show_too_much(rows[p], of_class)}
            if withheld and not (lonely == withheld if left else lonely):  # the rest is withheld where it is too small
                return False
        return True

    def loss(self, node: tuple[int, ...]) -> float:
        metric = self.case.setting.algorithm.metric
        if metric == "precision":
            return sum(level / (len(of) - 1) for level, of in zip(node, self.levels, strict=True) if len(of) > 1)
        if metric == "discernibility":
            return sum(len(members) ** 2 for members in self.alike(node).values())
        total, leaves = 0.0, [self.leaf[p] for p in self.window]
        for a, level in enumerate(node):
            of = Counter(leaf[a] for leaf in leaves)
            above = Counter(self.levels[a][level][leaf[a]] for leaf in leaves)
            total += sum(log2(above[self.levels[a][level][l[a]]] / of[l[a]]) for l in leaves)  # noqa: E741
        return total

    def _satisfying(self) -> list[tuple[int, ...]]:
        most = Fraction(str(self.case.setting.algorithm.max_suppression)) * len(self.window)
        nodes = product(*(range(len(of)) for of in self.levels))
        return [node for node in nodes if len(self.classes(node)[1]) <= most]


def windows(case: OlaCase) -> list[range]:
    size = case.setting.algorithm.window.tuples or max(len(case.rows), 1)
    return [range(i, min(i + size, len(case.rows))) for i in range(0, len(case.rows), size)]


@given(ola_cases(), st.integers(1, 50))
@LAWS
def test_each_window_is_published_at_the_node_that_loses_least(case: OlaCase, size: int) -> None:
    outputs = run(case, size)
    for window in windows(case):
        found, suppressed = published(outputs, window)
        every = Exhaustive(case, window)
        if not every.window:
            assert (found, suppressed) == ({}, set(window))
            continue
        assert every.dropped <= suppressed
        least = min(map(every.loss, every.satisfying))
        best = [node for node in every.satisfying if every.loss(node) == pytest.approx(least)]
        assert any(every.may_leave(found, suppressed - every.dropped, node, outputs) for node in best)


@given(ola_cases(), st.integers(1, 50), st.integers(1, 50))
@FEW
def test_neither_blocks_nor_restores_change_anything(case: OlaCase, one: int, other: int) -> None:
    assert columns_of(run(case, one)) == columns_of(run(case, other, restored=True))


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@given(shapes, st.data())
@LAWS
def test_the_search_finds_the_minimal_nodes_and_looks_at_few(levels: tuple[int, ...], data: st.DataObject) -> None:
    node = st.tuples(*(st.integers(0, size - 1) for size in levels))
    top = tuple(size - 1 for size in levels)
    from_here = [*data.draw(st.lists(node, max_size=4)), top]  # all above these satisfy
    judged: list[tuple[int, ...]] = []

    def above(node: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return all(a >= b for a, b in zip(node, other, strict=True))

    def satisfies(node: tuple[int, ...]) -> bool:
        judged.append(node)
        return any(above(node, one) for one in from_here)

    minimal = [n for n in set(from_here) if not any(above(n, other) and n != other for other in from_here)]
    assert sorted(minimal_nodes(levels, satisfies)) == sorted(minimal)
    assert len(judged) == len(set(judged)) <= prod(levels)


@given(shapes, st.data())
@LAWS
def test_the_search_finds_the_least_loss_whether_nodes_above_a_satisfying_one_satisfy_or_not(
    levels: tuple[int, ...], data: st.DataObject
) -> None:
    nodes = list(product(*map(range, levels)))
    satisfying = data.draw(st.sets(st.sampled_from(nodes), max_size=6))
    passes = data.draw(st.sets(st.sampled_from(nodes), max_size=6))  # nodes that the test for pruning lets pass
    steps = [data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)) for size in levels]
    judged: list[tuple[int, ...]] = []

    def loss(node: tuple[int, ...]) -> float:
        return sum(sum(of[:level]) for of, level in zip(steps, node, strict=True))

    def satisfies(node: tuple[int, ...]) -> bool:
        judged.append(node)
        return node in satisfying

    def possible(node: tuple[int, ...]) -> bool:
        below = (all(a >= b for a, b in zip(node, other, strict=True)) for other in satisfying)
        return node in passes or any(below)

    found = least_node(levels, loss, satisfies, possible)
    assert found == min(satisfying, key=lambda node: (loss(node), node), default=None)
    assert len(judged) == len(set(judged))


def test_a_lattice_of_a_hundred_thousand_nodes_is_searched_by_few_judgments() -> None:
    levels, judged = (10,) * 5, []
    wanted = np.array([3, 7, 2, 5, 4])

    def satisfies(node: tuple[int, ...]) -> bool:
        judged.append(node)
        return bool((np.array(node) >= wanted).all())

    assert minimal_nodes(levels, satisfies) == [tuple(wanted.tolist())]
    assert len(judged) < 1000


def test_a_hierarchy_of_another_shape_may_not_be_restored_but_parameters_may() -> None:
    case = OlaCase(
        OlaSetting(
            Policy({"q": Categorical(from_paths(TREES[0]))}, sensitive=("s",), passthrough=(IDENTITY,)),
            Privacy(2),
            Ola(),
            (pa.string(), pa.int64()),
        ),
        tuple(Row(("abcd"[i % 4],), ("u", i)) for i in range(8)),
    )
    kept = Kept(case.setting)
    kept.take(Push(case.rows))
    kept.restore(replace(case.setting, algorithm=Ola(max_suppression=0.5, metric="precision")))
    found, _ = published([kept.take(Finish())], range(8))
    assert sorted(map(len, found.values())) == [2, 2, 2, 2]
