"""Built hierarchies: trees whose labels tell what is below them, and the leaf of each value."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.model.builders import codes
from crenel.anonymity.model.builders.addresses import Ip
from crenel.anonymity.model.builders.builder import ROOT, Builder, built
from crenel.anonymity.model.builders.cells import Geohash, Quadkey
from crenel.anonymity.model.builders.dates import PERIODS, WEEKS, Dates
from crenel.anonymity.model.builders.hexagons import H3
from crenel.anonymity.model.builders.mask import Mask
from crenel.anonymity.model.builders.numbers import Numbers
from crenel.anonymity.model.builders.times import MINUTES, Times, Weekdays
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.fingerprint import hierarchy_digest
from crenel.anonymity.model.hierarchy import (
    MISSING,
    Hierarchy,
    HierarchyError,
    LazyLabels,
    csv_text,
    from_paths,
    load,
)
from tests.support.labels import in_cell, in_hexagon, in_interval, in_network, in_period, in_time, is_masked, is_on

PENTAGONS = {4, 14, 24, 38, 49, 58, 63, 72, 83, 97, 107, 117}
"""Base cells of H3 that are pentagons, as ``h3.get_pentagons(0)`` of the package h3 4.5.0 has them."""

BERLIN = """8b1f1d48945dfff 8a1f1d48945ffff 891f1d48947ffff 881f1d4895fffff 871f1d489ffffff 861f1d48fffffff
851f1d4bfffffff 841f1d5ffffffff 831f1dfffffffff 821f1ffffffffff 811f3ffffffffff 801ffffffffffff""".split()
"""``h3.latlng_to_cell(52.52, 13.405, 11)``, and ``h3.cell_to_parent`` of it up to resolution 0."""

BELOW_PENTAGON = """823007fffffffff 823017fffffffff 82301ffffffffff 823027fffffffff 82302ffffffffff
823037fffffffff""".split()
"""``sorted(h3.cell_to_children("81303ffffffffff", 2))``."""


@dataclass(frozen=True)
class Case:
    """A builder with values, most of which it knows, and what is known of them without it.

    Attributes
    ----------
    known : whether the builder knows a value
    within : whether a value is below a label, by what a reader takes the label for
    """

    builder: Builder
    values: list[Any]
    known: Callable[[Any], bool]
    within: Callable[[Any, str], bool]

    def leaves(self) -> list[int]:
        dtype = np.float64 if self.builder.kind == "number" else object
        array = np.empty(len(self.values), dtype)
        array[:] = self.values
        return self.builder.finder()(array).tolist()


@st.composite
def numbers(draw: st.DrawFn) -> Case:
    whole = draw(st.booleans())
    unit = (
        Fraction(1) if whole else draw(st.sampled_from([Fraction(1, 10), Fraction(5, 2), Fraction(1), Fraction(300)]))
    )
    widths = [draw(st.integers(1, 3)) * unit]
    for _ in range(draw(st.integers(0, 3))):
        widths.append(widths[-1] * draw(st.integers(2, 3)))
    grid = st.integers(-40, 40).map(lambda steps: float(steps * unit))
    between = st.integers(-400, 400).map(lambda steps: float(steps * unit / 10))
    domain = sorted((draw(grid if whole else between), draw(grid if whole else between)))
    builder = Numbers(
        domain=(domain[0], domain[1]),
        levels=tuple(map(float, widths)),
        origin=draw(grid),
        whole=whole,
        open=draw(st.booleans()),
    )
    values = draw(st.lists(st.one_of(grid, between), max_size=20))

    def known(value: float) -> bool:
        return domain[0] <= value and (builder.open or value <= domain[1]) and (not whole or value.is_integer())

    return Case(builder, [*domain, domain[1] + 1000 * float(unit), *values, 0.3, -0.0], known, in_interval)


@st.composite
def masks(draw: st.DrawFn) -> Case:
    keep = tuple(sorted(draw(st.sets(st.integers(0, 4), min_size=1).filter(lambda kept: kept != {0})), reverse=True))
    if draw(st.booleans()):
        length = draw(st.integers(keep[0], 4))
        builder = Mask(keep, length=length, alphabet="ab0")
        texts: set[str] | None = None
    else:
        length = 0
        texts = draw(st.sets(st.text("ab.", min_size=1, max_size=5), min_size=1, max_size=12))
        texts.add("b" * keep[0])
        builder = Mask(keep, values=tuple(draw(st.permutations([*texts, *texts]))))
    values = draw(st.lists(st.text("ab0.*", max_size=5), max_size=20))

    def known(value: Any) -> bool:
        return value in texts if texts is not None else len(value) == length and set(value) <= set("ab0")

    return Case(builder, [*values, *sorted(texts or ())], known, is_masked)


@st.composite
def dates(draw: st.DrawFn) -> Case:
    first = draw(st.dates(date(1, 1, 1), date(9990, 1, 1)))
    last = first + timedelta(days=draw(st.integers(0, 800)))
    levels = draw(st.sets(st.sampled_from(PERIODS), min_size=1))
    builder = Dates((first, last), tuple(period for period in PERIODS if period in levels))
    days = draw(
        st.lists(st.integers(-3, 803).map(lambda n: first.toordinal() + n).filter(lambda n: n > 0), max_size=20)
    )
    values = [date.fromordinal(number).isoformat() for number in days]
    odd = [f"{first.isoformat()} 00:00:00", first.isoformat().replace("-", ""), "", "2023-02-29"]

    def known(value: str) -> bool:
        return value not in odd and first <= date.fromisoformat(value) <= last

    return Case(builder, [first.isoformat(), last.isoformat(), *values, *odd], known, in_period)


@st.composite
def addresses(draw: st.DrawFn) -> Case:
    lengths = st.integers(26, 32)
    networks = [
        IPv4Network((draw(st.integers(0, 2**9)) << 32 - length & 0xFFFFFFFF, length))
        for length in draw(st.lists(lengths, min_size=1, max_size=3))
    ]
    levels = tuple(sorted(draw(st.sets(st.integers(1, 32), min_size=1, max_size=4)), reverse=True))
    near = st.sampled_from(networks).flatmap(
        lambda network: st.integers(-3, network.num_addresses + 3).map(
            lambda step: str(IPv4Address(max(int(network.network_address) + step, 0)))
        )
    )
    odd = ["010.0.0.1", "1.2.3", "1.2.3.4.", "1.2.3.256", "::1", "", "1.2.3.4\n", "１.2.3.4", "1.2.3.4/32"]

    def known(value: str) -> bool:
        return value not in odd and any(IPv4Address(value) in network for network in networks)

    return Case(
        Ip(tuple(networks), levels),
        [*draw(st.lists(near, max_size=20)), *odd],
        known,
        in_network,
    )


@st.composite
def weeks(draw: st.DrawFn) -> Case:
    case = draw(dates())
    levels = draw(st.sets(st.sampled_from(WEEKS), min_size=1))
    assert isinstance(case.builder, Dates)
    builder = Dates(case.builder.domain, tuple(period for period in WEEKS if period in levels))
    return Case(builder, case.values, case.known, in_period)


@st.composite
def times(draw: st.DrawFn) -> Case:
    levels = draw(st.sets(st.sampled_from(list(MINUTES)), min_size=1))
    endings = st.sampled_from(("minutes", "seconds", "milliseconds"))
    valid = draw(st.lists(st.builds(lambda time, end: time.isoformat(end), st.times(), endings), max_size=20))
    odd = ["24:00", "12:60", "7:30", "", "12:30\n", "１2:30", "12:30:60", "12:30Z", "2024-01-01 12:30", "12"]
    builder = Times(tuple(level for level in MINUTES if level in levels))
    return Case(builder, [*valid, "00:00", "23:59:59", *odd], lambda value: value not in odd, in_time)


@st.composite
def weekdays(draw: st.DrawFn) -> Case:
    valid = [day.isoformat() for day in draw(st.lists(st.dates(), max_size=20))]
    odd = ["2023-02-29", "20240229", "2024-W01-1", "", "2024-02-29\n", "Monday", "0000-01-01"]
    levels: Any = draw(st.sampled_from((("day",), ("part",), ("day", "part"))))
    return Case(Weekdays(levels), [*valid, *odd], lambda value: value not in odd, is_on)


@st.composite
def cells(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from((Geohash, Quadkey)))
    letters = kind.alphabet
    levels = tuple(sorted(draw(st.sets(st.integers(1, 3), min_size=1)), reverse=True))
    codes = st.text(letters, min_size=1, max_size=4)
    within = tuple(draw(st.lists(codes, max_size=3)))
    near = [area + end for area in within for end in ("", letters[0], letters[-1] * 3)]
    odd = ["", "u4PR", "a", "12-3", "12 "]
    values = [*draw(st.lists(codes, max_size=20)), *near, *odd]

    def known(value: str) -> bool:
        return value not in odd and len(value) >= levels[0] and (not within or value.startswith(within))

    return Case(kind(levels, within), values, known, in_cell)


def h3_index(base: int, digits: list[int]) -> str:
    """Return the text of an H3 index: mode 1, resolution, base cell, and 15 digits, of which the unused ones are 7."""
    bits = f"00001000{len(digits):04b}{base:07b}" + "".join(f"{digit:03b}" for digit in [*digits, *[7] * 15][:15])
    return f"{int(bits, 2):x}"


def is_h3_cell(base: int, digits: list[int]) -> bool:
    """Return whether there is such a cell; the first digit that is not 0 is no 1 where the base cell is a pentagon."""
    return base < 122 and 7 not in digits and (base not in PENTAGONS or next(filter(None, digits), 0) != 1)


@st.composite
def hexagons(draw: st.DrawFn) -> Case:
    levels = tuple(sorted(draw(st.sets(st.integers(0, 3), min_size=1)), reverse=True))
    bases = st.sampled_from((4, 14, 20, 117, 121, 122, 127))
    codes = st.tuples(bases, st.lists(st.sampled_from((0, 0, 1, 3, 6, 7)), max_size=15))
    areas = [
        (base, digits[:5])
        for base, digits in draw(st.lists(codes, max_size=3))
        if is_h3_cell(base, digits[:5]) and len(digits[:5]) >= levels[0] - 2
    ]
    levels = levels if areas else tuple(level for level in levels if level < 2) or (1, 0)
    near = [
        (base, [*area[: len(area) + cut], *end]) for base, area in areas for cut in (-1, 0) for end in ([], [0], [1])
    ]
    drawn = [*draw(st.lists(codes, max_size=15)), *near]
    values = {h3_index(*cell): cell for cell in drawn}
    odd = ["", "891F1D48947FFFF", "0891f1d48947ffff", "991f1d48947ffff", "891f1d48947fff", "891f1d48947ffff\n", "*"]

    def known(value: str) -> bool:
        if value in odd:
            return False
        base, digits = values[value]
        is_inside = not areas or any(base == of and digits[: len(area)] == area for of, area in areas)
        return is_h3_cell(base, digits) and len(digits) >= levels[0] and is_inside

    return Case(H3(levels, tuple(h3_index(*area) for area in areas)), [*values, *odd], known, in_hexagon)


cases = st.one_of(numbers(), masks(), dates(), addresses(), weeks(), times(), weekdays(), cells(), hexagons())


def ways(tree: Hierarchy) -> list[list[str]]:
    """Return the labels from each leaf to the root, by the tree's arrays alone."""
    found = []
    for leaf in range(tree.leaves):
        node, way = leaf, [tree.labels[leaf]]
        while node != tree.root:
            node = int(tree.parent[node])
            way.append(tree.labels[node])
        found.append(way)
    return found


@given(cases)
def test_every_leaf_reaches_the_root_through_labels_that_are_unique(case: Case) -> None:
    paths = case.builder.paths()
    tree = case.builder.hierarchy()
    assert len(set(tree.labels)) == len(tree.labels)
    assert tree.labels[tree.root] == ROOT
    assert ways(tree) == [list(dict.fromkeys(path)) for path in paths]


@given(cases)
def test_the_nodes_of_a_level_are_disjoint_and_cover_and_lie_within_those_above(case: Case) -> None:
    tree = case.builder.hierarchy()
    levels = tree.level_nodes()
    assert levels.shape == (len(case.builder.paths()[0]), tree.leaves)
    assert levels[0].tolist() == list(range(tree.leaves))
    assert set(levels[-1].tolist()) == {tree.root}
    for nodes in levels:
        below = [
            leaf for node in dict.fromkeys(nodes.tolist()) for leaf in range(tree.first[node], tree.last[node] + 1)
        ]
        assert below == list(range(tree.leaves))
        assert all(tree.first[node] <= leaf <= tree.last[node] for leaf, node in enumerate(nodes.tolist()))
    for nodes, above in pairwise(levels):
        assert len(set(zip(nodes.tolist(), above.tolist(), strict=True))) == len(set(nodes.tolist()))


@given(cases)
def test_a_value_is_below_its_leaf_and_below_no_other_and_what_is_not_known_has_none(case: Case) -> None:
    paths = case.builder.paths()
    for value, leaf in zip(case.values, case.leaves(), strict=True):
        assert (leaf >= 0) == case.known(value)
        if leaf >= 0:
            assert all(case.within(value, label) for label in paths[leaf])
            others = [label for label, *_ in paths if case.within(value, label)]
            assert paths[leaf][0] == max(others, key=len)
            assert len(others) == 1 or isinstance(case.builder, Mask)


@given(cases)
def test_a_missing_value_comes_after_all_leaves_and_moves_none(case: Case) -> None:
    tree = case.builder.hierarchy()
    kept = tree.with_missing()
    assert kept.labels[: tree.leaves] == tree.labels[: tree.leaves]
    assert kept.level_nodes()[:, : tree.leaves].shape == tree.level_nodes().shape
    assert [kept.labels[node] for node in kept.level_nodes()[:, -1]] == [
        *[kept.labels[tree.leaves]] * (len(tree.level_nodes()) - 1),
        ROOT,
    ]


@given(case=cases)
def test_what_is_written_as_a_file_is_the_same_tree(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    tree = case.builder.hierarchy()
    path = tmp_path_factory.getbasetemp() / "built.csv"
    path.write_text(csv_text(tree.paths()), encoding="utf-8", newline="")
    read = load(path)
    assert (read.labels, read.leaves, read.parent.tolist()) == (tree.labels, tree.leaves, tree.parent.tolist())
    assert read.level_nodes().tolist() == tree.level_nodes().tolist()


def test_labels_are_what_a_reader_takes_them_for() -> None:
    def shown(builder: Builder, *rows: int) -> list[str]:
        return [" < ".join(builder.paths()[place]) for place in rows]

    assert shown(Numbers((18, 96), (1, 2, 4, 8), open=True), 0, -1) == [
        "18 < 18-19 < 16-19 < 16-23 < *",
        "96+ < 96+ < 96+ < 96+ < *",
    ]
    assert shown(Numbers((-3, 3), (2, 4), origin=1), 0) == ["-3 to -2 < -3 to 0 < *"]
    assert shown(Numbers((0, 1), (0.1, 0.5), whole=False), 2, -1) == [
        "[0.2, 0.3) < [0, 0.5) < *",
        "[0.9, 1] < [0.5, 1] < *",
    ]
    assert shown(Numbers((0, 5e3), (1e3, 5e3), whole=False, open=True), 4, 5) == [
        "[4000, 5000) < [0, 5000) < *",
        ">= 5000 < >= 5000 < *",
    ]
    assert shown(Mask((5, 4, 3, 2, 0), length=5), 23701) == ["23701 < 2370* < 237** < 23*** < *"]
    assert shown(Mask((5, 3, 1), values=("J45.9", "J45", "J4", "K1")), 0, 1, 2) == [
        "J4 < J4 < J* < *",
        "J45 < J45* < J* < *",
        "J45.9 < J45* < J* < *",
    ]
    assert shown(Dates((date(2024, 2, 29), date(2024, 3, 1))), 0) == [
        "2024-02-29 < 2024-02 < 2024-Q1 < 2024 < 2020s < *"
    ]
    assert shown(Dates((date(2024, 12, 30), date(2025, 1, 6)), WEEKS), 0) == ["2024-12-30 < 2025-W01 < 2025-W* < *"]
    assert shown(Times(), 510) == ["08:30 < 08:00-08:59 < 06:00-11:59 < *"]
    assert shown(Weekdays(), 0, 6) == ["Monday < weekday < *", "Sunday < weekend < *"]
    assert shown(Geohash((3, 2, 1), ("u4",)), 21) == ["u4p < u4 < u < *"]
    assert shown(Quadkey((3, 2), ("12",)), 3) == ["123 < 12 < *"]
    assert shown(Ip((IPv4Network("10.0.3.0/29"),)), 7) == ["10.0.3.7 < 10.0.3.0/24 < 10.0.0.0/16 < 10.0.0.0/8 < *"]


def test_h3_cells_have_the_parents_and_children_of_the_package_h3() -> None:
    everywhere = H3((11, *range(10, -1, -1)), (BERLIN[2],))
    (leaf,) = everywhere.finder()(np.array(BERLIN[:1], object))
    assert everywhere.paths()[leaf] == (*BERLIN, ROOT)
    assert [path[0] for path in H3((2,), ("81303ffffffffff",)).paths()] == BELOW_PENTAGON
    # h3.get_num_cells(3), and the number of h3.cell_to_children("8031fffffffffff", 4), which is a pentagon.
    assert len(H3((3,)).paths()) == 41162
    assert len(H3((4,), ("8031fffffffffff",)).paths()) == 2001


def test_an_index_of_no_h3_cell_is_unknown() -> None:
    deleted, digit_7, no_7, no_base = "82080ffffffffff", "8300f9fffffffff", "80007ffffffffff", "80f5fffffffffff"
    edge = BERLIN[0]
    odd = [deleted, digit_7, no_7, no_base, edge.replace("8", "9", 1), edge.upper(), f"0{edge}", edge[:-1], "", None]
    found = H3((0,)).finder()(np.array([*odd, *BERLIN], object))
    assert found.tolist() == [-1] * len(odd) + [15] * len(BERLIN)
    assert H3((1,)).finder()(np.array([BERLIN[-1]], object)).tolist() == [-1]


def test_an_end_between_intervals_is_the_decimal_that_was_written() -> None:
    # 0.1 * 3 is more than 0.3 as float64, and 0.7 / 0.1 is less than 7.
    numbers = Numbers((0, 1), (0.1,), whole=False)
    found = numbers.finder()(np.array([0.3, 0.7, 0.6, 1.0]))
    assert [numbers.paths()[leaf][0] for leaf in found] == ["[0.3, 0.4)", "[0.7, 0.8)", "[0.6, 0.7)", "[0.9, 1]"]


@pytest.mark.parametrize(
    ("build", "field", "problem"),
    [
        (lambda: Numbers((0, 9), (2, 3)), "levels", "must nest"),
        (lambda: Numbers((0, 9), (2, 2)), "levels", "must nest"),
        (lambda: Numbers((0, 9), (0.5,)), "levels", "whole: false"),
        (lambda: Numbers((0, 9), (1,), origin=0.5), "origin", "whole: false"),
        (lambda: Numbers((0, 9), ()), "levels", "widths above 0"),
        (lambda: Numbers((9, 0), (1,)), "domain", "the lower one first"),
        (lambda: Numbers((0, 2**20), (1,)), "domain", "makes 1048577 leaves"),
        (lambda: Numbers((2**60, 2**60), (1,)), "levels", "too small a width"),
        (lambda: Mask((3,), length=2), "keep", "no value has more than 2 characters"),
        (lambda: Mask((2, 2), length=2), "keep", "each fewer than the one before"),
        (lambda: Mask((0,), length=2), "keep", "each fewer than the one before"),
        (lambda: Mask((2,), length=7), "length", "makes 10^7 values"),
        (lambda: Mask((2,)), "length", "give it, such as 5, or all 'values'"),
        (lambda: Mask((2,), values=("ab",), length=2), "length", "give one of the two"),
        (lambda: Mask((2,), values=("a*",)), "values", "none with '*'"),
        (lambda: Mask((2,), values=()), "values", "at least one"),
        (lambda: Mask((2,), length=2, alphabet="aa"), "alphabet", "each once"),
        (lambda: Dates((date(2024, 1, 2), date(2024, 1, 1))), "domain", "the earlier one first"),
        (lambda: Dates((date(1, 1, 1), date(9999, 1, 1)), ("year",)), "domain", "holds 3651695 days"),
        (lambda: Dates((date(2024, 1, 1), date(2024, 1, 1)), ("year", "month")), "levels", "in this order"),
        (lambda: Dates((date(2024, 1, 1), date(2024, 1, 1)), ("week", "month")), "levels", "or some of day, week"),
        (lambda: Times(()), "levels", "must nest"),
        (lambda: Weekdays(("part", "day")), "levels", "in this order"),
        (lambda: Times(("hour", "minute")), "levels", "in this order"),
        (lambda: Geohash((0,)), "levels[0]", "is too small; lengths of codes"),
        (lambda: Geohash((2, 3), ("u",)), "levels", "each shorter"),
        (lambda: Geohash((5,)), "within", "33554432 leaves are too many"),
        (lambda: Geohash((5,), ("U",)), "within", "must be codes of the characters"),
        (lambda: Quadkey((5,), ("",)), "within", "none of them empty"),
        (lambda: Quadkey((13,)), "within", "67108864 leaves are too many"),
        (lambda: H3((16,)), "levels", "from 15 to 0"),
        (lambda: H3((7, 8)), "levels", "each coarser"),
        (lambda: H3((7,)), "within", "98825162 leaves are too many"),
        (lambda: H3((11,), ("823007fffffffff", BERLIN[9])), "within", "73981613 leaves are too many"),
        (lambda: H3((3,), ("80f5fffffffffff",)), "within", "must be H3 indices"),
        (lambda: H3((3,), (BERLIN[3].upper(),)), "within", "in lower case"),
        (lambda: Ip(()), "networks", "at least one"),
        (lambda: Ip((IPv4Network("10.0.0.0/7"),)), "networks", "33554432 leaves are too many"),
        (lambda: Ip((IPv4Network("10.0.0.0/24"),), (24, 32)), "levels", "must nest"),
        (lambda: Ip((IPv4Network("10.0.0.0/24"),), (32, 0)), "levels[1]", "is too small; lengths of prefixes"),
    ],
)
def test_what_makes_no_hierarchy_is_refused_by_its_field(
    build: Callable[[], Builder], field: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as error:
        build()
    (found,) = error.value.problems
    assert found.startswith(f"{field}: ")
    assert problem in found


def test_the_largest_that_are_allowed_are_allowed() -> None:
    assert len(Numbers((0, 2**20 - 1), (2.0**18,)).paths()) == 4
    assert Numbers((1, 2**20), (1,)).domain[1] == 2**20
    assert Mask((1,), length=20, alphabet="01").paths() == [("0" + "*" * 19, "*"), ("1" + "*" * 19, "*")]
    assert Ip((IPv4Network("10.0.0.0/8"), IPv4Network("10.1.0.0/16")), (24,)).levels == (24,)
    assert Geohash((4,)).within == Quadkey((10,)).within == ()
    assert H3((4,)).within == ()
    assert H3((11,), (BERLIN[7], BERLIN[4])).levels == (11,)
    assert Quadkey((11,), ("1", "12")).levels == (11,)


@given(st.one_of(addresses(), cells(), hexagons()))
def test_a_hierarchy_of_codes_is_that_of_its_paths_and_labels_that_are_built_when_needed_are_its_labels(
    case: Case,
) -> None:
    tree = from_paths(case.builder.paths())
    assert_equal(case.builder.hierarchy(), tree)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "MOST_LEAVES", 0)
        lazy = case.builder.hierarchy()
    missing = [*tree.paths(), ("(missing)",) * int(tree.levels()[-1]) + (ROOT,)]
    for listed, built_when_needed in ((tree, lazy), (from_paths(missing), lazy.with_missing())):
        assert isinstance(built_when_needed.labels, LazyLabels)
        assert_equal(replace(built_when_needed, labels=tuple(built_when_needed.labels), level=listed.level), listed)
        texts = [*listed.labels, *(str(value) for value in case.values), MISSING, None, "10.0.0.1/24", "10.0.0.0/33"]
        assert built_when_needed.find(texts).tolist() == listed.find(texts).tolist()
        nodes = np.arange(len(listed.labels))[::-2]
        assert built_when_needed.labels_of(nodes) == listed.labels_of(nodes)


def assert_equal(one: Hierarchy, other: Hierarchy) -> None:
    assert (one.labels, one.leaves) == (other.labels, other.leaves)
    for field in ("parent", "first", "last", "loss", "level"):
        left, right = getattr(one, field), getattr(other, field)
        assert left.dtype == right.dtype
        assert left.tolist() == right.tolist()


def test_a_large_hierarchy_goes_to_another_process_as_what_builds_it_and_refuses_what_looks_at_each_leaf() -> None:
    tree = built(Quadkey((11, 8, 4), ("1", "2")))
    assert tree.leaves == 2**21
    for sent in (tree, tree.with_missing()):
        stored = pickle.dumps(sent)
        assert len(stored) < 1_000
        assert pickle.loads(stored).labels[sent.root - 1] == sent.labels[sent.root - 1]
        assert len(pickle.loads(stored).labels) == len(sent.labels)
        for look in (sent.paths, sent.levels):
            with pytest.raises(HierarchyError, match=f"has {sent.leaves} leaves"):
                look()
    assert hierarchy_digest(tree) != hierarchy_digest(tree.with_missing())
    assert hierarchy_digest(tree) == hierarchy_digest(Quadkey((11, 8, 4), ("2", "1", "12")).hierarchy())
    assert hierarchy_digest(tree) != hierarchy_digest(Quadkey((11, 8, 4), ("1", "3")).hierarchy())
    assert hierarchy_digest(tree) != hierarchy_digest(Quadkey((11, 8, 5), ("1", "2")).hierarchy())
    built.cache_clear()


@pytest.mark.parametrize(
    ("smaller", "builder"),
    [
        (Mask((4, 3, 2, 0), length=4), Mask((5, 4, 3, 2, 0), length=5)),
        (Dates((date(1900, 1, 1), date(1912, 12, 31))), Dates((date(1900, 1, 1), date(2028, 12, 31)))),
        (Ip((IPv4Network("10.0.0.0/20"),)), Ip((IPv4Network("10.0.0.0/16"),))),
        (Numbers((0, 9_999), (1, 10, 100)), Numbers((0, 99_999), (1, 10, 100))),
    ],
    ids=lambda builder: type(builder).__name__,
)
def test_what_is_larger_takes_longer_by_about_as_much(smaller: Builder, builder: Builder) -> None:
    few, short = timed(smaller)
    many, long = timed(builder)
    assert many > 40_000
    assert few < many / 9
    # By the square of it ten times as many leaves would take a hundred times as long.
    assert long / short < 5 * many / few


def timed(builder: Builder) -> tuple[int, float]:
    """Return the number of leaves of a hierarchy, and the seconds of processor time to build it."""
    started = time.process_time()
    tree = builder.hierarchy()
    builder.finder()
    return tree.leaves, time.process_time() - started
