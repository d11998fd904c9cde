"""Built hierarchies in the configuration: what is read, what is refused, and in what words."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.anonymity.model.attributes import Categorical
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.fingerprint import fingerprint
from crenel.anonymity.model.hierarchy import MISSING
from crenel.anonymity.model.secret import NO_KEY
from crenel.jobs.config.load import Config, load

BUILT = """
policy:
  quasi_identifiers:
    age: {type: categorical, hierarchy: {numbers: {domain: [0, 96], levels: [1, 2, 4, 8], open: true}}}
    zip: {type: categorical, hierarchy: {mask: {length: 3, alphabet: "01", keep: [3, 1, 0]}}}
    icd: {type: categorical, hierarchy: {mask: {values: [J45, J45.9], keep: [5, 3]}}}
    birth: {type: categorical, hierarchy: {dates: {domain: [2023-12-31, 2024-01-02], levels: [month, year]}}}
    address: {type: categorical, hierarchy: {ip: {networks: [10.0.0.0/23], levels: [24, 8]}}}
    area: {type: categorical, hierarchy: {file: area.csv}}
    job: {type: categorical, hierarchy: {values: [nurse, 3, true, 2024-02-29]}}
    land: {type: categorical, hierarchy: {groups: {Europe: [DE, FR], Asia: {East: [JP], Turkey: [Turkey]}}}}
    pain: {type: categorical, hierarchy: {ordered: {values: [0, low, mid, high, 5], widths: [2, 4]}}}
privacy: {k: 3}
castle: {delay: {tuples: 5}}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""
FIELD = "policy.quasi_identifiers"


def configured(folder: Path, *overrides: str) -> Config:
    (folder / "area.csv").write_text("north;*\nsouth;*\n")
    (folder / "zips.txt").write_text("\ufeff00501\n90210\n\n00501\n", encoding="utf-8")
    (folder / "built.yaml").write_text(BUILT)
    return load(folder / "built.yaml", overrides)


def trees(config: Config) -> dict[str, Categorical]:
    return {attribute.name: attribute for attribute in config.policy.categorical}


def test_each_builder_is_usable_by_name(tmp_path: Path) -> None:
    found = {name: attribute.hierarchy.paths() for name, attribute in trees(configured(tmp_path)).items()}
    assert found["age"][95:] == [("95", "94-95", "92-95", "88-95", "*"), ("96+", "96+", "96+", "96+", "*")]
    assert found["zip"][-1] == ("111", "1**", "*")
    assert found["icd"] == [("J45", "J45*", "*"), ("J45.9", "J45*", "*")]
    assert found["birth"] == [("2023-12", "2023", "*"), ("2024-01", "2024", "*")]
    assert found["address"] == [("10.0.0.0/24", "10.0.0.0/8", "*"), ("10.0.1.0/24", "10.0.0.0/8", "*")]
    assert found["area"] == [("north", "*"), ("south", "*")]
    assert found["job"] == [("nurse", "*"), ("3", "*"), ("true", "*"), ("2024-02-29", "*")]
    assert found["land"][1:3] == [("FR", "Europe", "Europe", "*"), ("JP", "East", "Asia", "*")]
    assert found["pain"][2:] == [
        ("mid", "mid to high", "0 to high", "*"),
        ("high", "mid to high", "0 to high", "*"),
        ("5", "5", "5", "*"),
    ]


def test_groups_of_different_depth_have_levels(tmp_path: Path) -> None:
    hierarchy = trees(configured(tmp_path))["land"].hierarchy
    labels = [{hierarchy.labels[node] for node in nodes} for nodes in hierarchy.level_nodes()]
    assert labels == [
        {"DE", "FR", "JP", "Turkey"},
        {"Europe", "East", "Turkey"},
        {"Europe", "Asia"},
        {"*"},
    ]


def test_the_example_has_one_of_each_builder() -> None:
    config = load(Path(__file__).parents[3] / "conf" / "built.yaml")
    kinds = [attribute.builder.kind for attribute in config.policy.categorical if attribute.builder is not None]
    assert sorted(kinds) == ["address", "date", "number", "text"]


def test_values_may_stand_in_a_file_beside_the_configuration(tmp_path: Path) -> None:
    config = configured(tmp_path, f"{FIELD}.zip.hierarchy={{mask: {{values: zips.txt, keep: [5, 2]}}}}")
    assert trees(config)["zip"].hierarchy.paths() == [("00501", "00***", "*"), ("90210", "90***", "*")]


def test_kept_missing_values_have_a_leaf_in_a_built_hierarchy(tmp_path: Path) -> None:
    for attribute in trees(configured(tmp_path, "policy.missing=value")).values():
        tree = attribute.hierarchy
        assert tree.labels[tree.leaves - 1] == MISSING


def test_ola_refuses_a_large_hierarchy_because_it_looks_at_each_leaf(tmp_path: Path) -> None:
    large = f"{FIELD}.address.hierarchy={{ip: {{networks: [10.0.0.0/11], levels: [32, 8]}}}}"
    assert trees(configured(tmp_path, large))["address"].hierarchy.leaves == 2**21
    with pytest.raises(ConfigError) as error:
        configured(tmp_path, large, "algorithm=ola", "castle=null", "ola={}")
    assert f"{FIELD}.address.hierarchy: has 2097152 leaves, and 2^20 at most are possible here" in str(error.value)


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        (
            "age.hierarchy.numbers.levels=[1, 2, 3]",
            "age.hierarchy.numbers.levels: must nest: each width is a multiple of the one before, such as [1, 2, 4, 8]",
        ),
        ("age.hierarchy.numbers.levels=[1, -2]", "age.hierarchy.numbers.levels[1]: is too small; widths, each"),
        ("age.hierarchy.numbers.levels=2", "age.hierarchy.numbers.levels: is not a list; widths, each"),
        ("age.hierarchy.numbers.domain=[0, 1e9]", "age.hierarchy.numbers.domain: makes 1000000001 leaves"),
        ("age.hierarchy.numbers.domain=null", "age.hierarchy.numbers.domain: is not a list; [lowest, highest]"),
        ("age.hierarchy.numbers.width=2", "age.hierarchy.numbers.width: is unknown; known here: domain, levels,"),
        ("age.hierarchy={}", "age.hierarchy: must hold one of file, values, groups, ordered, numbers,"),
        ("age.hierarchy.file=area.csv", "age.hierarchy: must hold one of file, values, groups, ordered, numbers,"),
        ("age.hierarchy=[numbers]", "age.hierarchy: is no hierarchy; the path of a hierarchy file"),
        ("age.hierarchy=null", "age: a categorical one needs a 'hierarchy', the path of its file or what builds it"),
        ("age={type: numeric, hierarchy: {ip: {networks: [10.0.0.0/30]}}}", "age: a numeric one has no 'hierarchy'"),
        ("job.hierarchy.values=[]", "job.hierarchy.values: must be values, at least one, none of them empty"),
        ("job.hierarchy.values=[a, '*']", "job.hierarchy.values: must be values, at least one, none of them empty"),
        ("job.hierarchy.values=[1, '1']", "job.hierarchy.values: hold '1' twice; name each value once"),
        ("job.hierarchy.values=[[a]]", "job.hierarchy.values[0]: holds a list; give text, a number"),
        ("land.hierarchy.groups=[DE]", "land.hierarchy.groups: is not a mapping of groups; a mapping such as"),
        ("land.hierarchy.groups={A: {B: DE}}", "land.hierarchy.groups: the group A.B is not a list of values or"),
        ("land.hierarchy.groups={A: [x], B: [x]}", "land.hierarchy.groups: hold 'x' twice; name each value once"),
        ("land.hierarchy.groups={A: {C: [x]}, B: {C: [y]}}", "land.hierarchy: line 2: 'C' has two parents, 'A' and"),
        ("pain.hierarchy.ordered.widths=[2, 3]", "pain.hierarchy.ordered.widths: must be whole numbers from 2, each"),
        ("pain.hierarchy.ordered.widths=[1]", "pain.hierarchy.ordered.widths: must be whole numbers from 2, each"),
        ("zip.hierarchy.mask.values=[a]", "zip.hierarchy.mask.length: goes without 'values'; give one of the two"),
        ("zip.hierarchy.mask.length=40", "zip.hierarchy.mask.length: makes 2^40 values, and 2^20 are known at most"),
        ("zip.hierarchy.mask.keep=[1, 3]", "zip.hierarchy.mask.keep: must be numbers of characters, each fewer"),
        ("icd.hierarchy.mask.values=none.txt", "icd.hierarchy.mask.values: FOLDER/none.txt: cannot be read: No such"),
        ("birth.hierarchy.dates.levels=[yaer]", "birth.hierarchy.dates.levels[0]: is not one of the choices (did you"),
        ("birth.hierarchy.dates.levels=[year, month]", "birth.hierarchy.dates.levels: must nest: some of day, month,"),
        (
            "birth.hierarchy.dates.domain=[2023-02-29, 2024-01-01]",
            "birth.hierarchy.dates.domain[0]: is not a day; [first, last], two days such as",
        ),
        (
            "birth.hierarchy={times: {levels: [hour, minute]}}",
            "birth.hierarchy.times.levels: must nest: some of",
        ),
        ("birth.hierarchy={weekdays: {levels: []}}", "birth.hierarchy.weekdays.levels: must nest: some of day, part"),
        ("zip.hierarchy={geohash: {levels: [5]}}", "zip.hierarchy.geohash.within: 33554432 leaves are too"),
        ("zip.hierarchy={quadkey: {levels: [2], within: ['4']}}", "zip.hierarchy.quadkey.within: must be codes of the"),
        ("zip.hierarchy={h3: {levels: [7]}}", "zip.hierarchy.h3.within: 98825162 leaves are"),
        ("zip.hierarchy={h3: {levels: [5], within: [u4pr]}}", "zip.hierarchy.h3.within: must be H3 indices in lower"),
        ("address.hierarchy.ip.networks=['::/64']", "address.hierarchy.ip.networks[0]: is not an IPv4 network; IPv4"),
        ("address.hierarchy.ip.networks=[10.0.0.1/8]", "address.hierarchy.ip.networks[0]: is not an IPv4 network"),
        ("address.hierarchy.ip={networks: [10.0.0.0/7]}", "address.hierarchy.ip.networks: 33554432 leaves are"),
        ("area.hierarchy.file=none.csv", "area.hierarchy: FOLDER/none.csv: cannot be read: No such file"),
    ],
)
def test_what_is_wrong_is_told_by_field_with_what_would_be_valid(tmp_path: Path, override: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        configured(tmp_path, f"{FIELD}.{override}")
    (found,) = error.value.problems
    assert found.startswith(f"{FIELD}.{problem.replace('FOLDER', str(tmp_path))}")


def test_a_fingerprint_tells_hierarchies_apart_by_what_they_are_and_not_by_how_they_are_written(tmp_path: Path) -> None:
    def of(*overrides: str) -> dict[str, str]:
        config = configured(tmp_path, *overrides)
        return dict(fingerprint(config.policy, config.shards, NO_KEY, {}))

    def changed(*overrides: str) -> list[str]:
        now = of(*overrides)
        return sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))

    was = of()
    (tmp_path / "zip.csv").write_text(
        "".join(f"{a}{b}{c};{a}**;*\n" for a in "01" for b in "01" for c in "01"), encoding="utf-8"
    )
    assert changed() == []
    assert changed(f"{FIELD}.age.hierarchy.numbers.levels=[1.0, 2, 4e0, 8]", f"{FIELD}.zip.hierarchy=zip.csv") == []
    assert changed(f"{FIELD}.address.hierarchy.ip.networks=[10.0.1.0/24, 10.0.0.0/24]") == []
    for name, override in (
        ("age", "numbers.open=false"),
        ("age", "numbers.origin=1"),
        ("age", "numbers.whole=false"),
        ("age", "numbers.levels=[1, 2, 4]"),
        ("zip", "mask.keep=[3, 2, 0]"),
        ("birth", "dates.levels=[day, month, year]"),
        ("address", "ip.networks=[10.0.0.0/22]"),
    ):
        assert changed(f"{FIELD}.{name}.hierarchy.{override}") == [f"{FIELD}.{name}.hierarchy"], override
