"""The file of regions comes back as it was written, and one that does not fit is refused by the name of its field."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import yaml
from hypothesis import given

from crenel.anonymity.model.attributes import Categorical, Numeric, QuasiIdentifier, by_name
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.region_tree import Region, RegionTree
from crenel.anonymity.regions.learn import learn
from crenel.anonymity.regions.loss import EncodedSample
from crenel.jobs.config.load import load
from crenel.regions_file import read_regions, regions_text
from tests.support.example_counts import LAWS
from tests.support.launch import DATA
from tests.support.regions import learned

ADULT = DATA / "adult"
TOWNS = from_paths([(f"{side}{i}", side, "*") for side in ("north", "south") for i in range(4)])
POLICY = Policy({"town": Categorical(TOWNS), "age": Numeric((0, 90)), "pay": Numeric()})
CONFIG = """
policy:
  quasi_identifiers:
    town: {type: categorical, hierarchy: towns.csv}
    age: {type: numeric, domain: [0, 90]}
    pay: {type: numeric}
privacy: {k: 3}
castle: {delay: {tuples: 5}}
shards: {count: 4, by: regions, regions: regions.yaml}
source: {ddl: CREATE TEMPORARY TABLE source}
sinks: {released: {connector: blackhole}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "towns.csv").write_text("\n".join(";".join(path) for path in TOWNS.paths()), encoding="utf-8")
    (tmp_path / "job.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "regions.yaml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def of(regions: int) -> RegionTree:
    random = np.random.default_rng(4)
    numeric = np.stack((random.integers(0, 90, 400), random.normal(9, 3, 400)), axis=1).astype(np.float64)
    towns = random.integers(0, TOWNS.leaves, (400, 1)).astype(np.int32)
    numeric[:, 0] = towns[:, 0] * 10 + numeric[:, 0] / 10
    return learn(POLICY, EncodedSample(numeric, towns), regions, 3)


def text(policy: Policy = POLICY, regions: int = 4) -> str:
    return regions_text(policy, of(regions), 400, 3)


TEXT = text()


@given(learned())
@LAWS
def test_a_tree_comes_back_as_it_was_written(found: tuple[Policy, EncodedSample, RegionTree]) -> None:
    policy, sample, tree = found
    with TemporaryDirectory() as folder:
        path = Path(folder, "regions.yaml")
        path.write_text(regions_text(policy, tree, len(sample), 3), encoding="utf-8")
        read = read_regions(path, policy, len(tree))
    assert read.cuts == tree.cuts
    assert read.share == pytest.approx(tree.share, abs=1e-6)
    assert read.loss == pytest.approx(tree.loss, abs=1e-4)


def test_a_person_can_read_it(folder: Path) -> None:
    content = yaml.safe_load(TEXT)
    assert list(content["attributes"]) == ["town", "age", "pay"]
    assert content["attributes"]["age"] == {"domain": [0, 90]}
    assert content["attributes"]["pay"] == {"domain": None}
    assert content["tree"]["cut"] in content["attributes"]
    assert TEXT.startswith(
        "# For 'shards: {count: 4, by: regions, regions: FILE}': learned by 'crenel regions' from 400"
    )
    assert re.search(r"(left|right): \{shard: 3, share: 0\.\d+, loss: 0\.\d+\}", TEXT)
    assert len(TEXT.splitlines()) < 40
    config = load(folder / "job.yaml")
    assert config.shards.regions is not None
    assert config.shards.regions.cuts == of(4).cuts


def changed(**attributes: QuasiIdentifier) -> Policy:
    return replace(POLICY, quasi_identifiers=by_name(tuple(attributes.get(a.name, a) for a in POLICY.attributes)))


OTHER_TREE = from_paths([(f"{side}{i}", side, "*") for side in ("north", "south") for i in range(3)])
SIDE = "{shard: 0, share: 0.5, loss: 0}, right: {shard: 1, share: 0.5, loss: 0}"
HEAD = TEXT[: TEXT.index("tree:")]


@pytest.mark.parametrize(
    ("file", "overrides", "beginning", "valid"),
    [
        (lambda: text(regions=3), [], "tree: has 3 regions, and shards.count is 4", "set it to 3, or learn"),
        (lambda: TEXT, ["shards.count=5"], "tree: has 4 regions, and shards.count is 5", "--count 5"),
        (
            lambda: text(changed(age=Numeric((0, 91)).named("age"))),
            [],
            "attributes.age.domain: is another one than",
            "anew",
        ),
        (
            lambda: text(changed(age=Numeric().named("age"))),
            [],
            "attributes.age.domain: is another one",
            "crenel regions",
        ),
        (lambda: TEXT, ["policy.missing=value"], "attributes.town.hierarchy: is of another one", "policy.missing"),
        (
            lambda: TEXT.replace("town: {", "city: {"),
            [],
            "attributes: are others than policy.quasi_identifiers, which are town, age, pay",
            "learn the regions anew",
        ),
        (lambda: TEXT.replace("version: 1", "version: 2"), [], "version: is not one of the choices", "1"),
        (lambda: HEAD, [], "tree: is missing", "a region, or a cut"),
        (lambda: HEAD + "tree: {shard: 0, share: 1, loss: 2}", [], "tree.loss: is too large", "from 0 to 1"),
        (lambda: HEAD + "tree: {shard: 0, share: 1}", [], "tree: must hold either 'shard'", "'cut', 'below'"),
        (lambda: HEAD + f"tree: {{cut: ago, below: 4, left: {SIDE}}}", [], "tree.cut: is no quasi-identifier", "age"),
        (lambda: HEAD + f"tree: {{cut: town, below: 4, left: {SIDE}}}", [], "tree: must hold either", "'before'"),
        (lambda: HEAD + f"tree: {{cut: age, below: 0, left: {SIDE}}}", [], "tree.below: leaves no value", "anew"),
        (lambda: HEAD + f"tree: {{cut: town, before: zzz, left: {SIDE}}}", [], "tree.before: is no value", "anew"),
        (lambda: HEAD + f"tree: {{cut: town, before: north0, left: {SIDE}}}", [], "tree.before: leaves no", "anew"),
        (
            lambda: HEAD + "tree: " + SIDE.join(("{cut: age, below: 4, left: ", "}")).replace("1, s", "0, s"),
            [],
            "tree: its shards must be numbered from 0 to 1",
            "left to right",
        ),
        (
            lambda: HEAD + f"tree: {{cut: age, below: 4, left: {SIDE.replace('0.5', '0.4')}}}",
            ["shards.count=2"],
            "tree: the shares of its regions must add up to 1",
            "anew",
        ),
        (
            lambda: (
                HEAD + "tree: {cut: age, below: 4, left: {cut: age, below: 4, left: {shard: 0, share: 1, loss: 0}, "
                "right: {shard: 0, share: 1, loss: 0}}, right: {shard: 1, share: 0, loss: 0}}"
            ),
            [],
            "tree.left.below: leaves no value on one of its sides",
            "anew",
        ),
        (lambda: "- a", [], "file: is not a mapping", "keys"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    folder: Path, file: Callable[[], str], overrides: list[str], beginning: str, valid: str
) -> None:
    (folder / "regions.yaml").write_text(file(), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(folder / "job.yaml", overrides)
    (problem,) = caught.value.problems
    assert problem.startswith(f"shards.regions: regions.yaml: {beginning}")
    assert valid in problem


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            ["shards={count: 4, by: regions}"],
            "shards.regions: is missing; give the path of what 'crenel regions' wrote",
        ),
        (["shards.by=subject"], "shards.regions: goes with 'by: regions'"),
        (["shards.by=town"], "shards.regions: goes with 'by: regions'"),
        (["shards.regions=none.yaml"], "shards.regions: none.yaml: file: cannot be read: No such file"),
        (
            ["sampling_and_noise={sample_rate: 0.5, phi: 10, range: observed}", "policy.missing=reject"],
            "shards.by: a shard chosen by regions gives away what noise is to hide",
        ),
    ],
)
def test_regions_go_with_their_file_and_without_noise(folder: Path, overrides: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(folder / "job.yaml", overrides)
    assert any(found.startswith(problem) for found in caught.value.problems), caught.value.problems


def test_a_file_of_regions_that_is_not_utf_8_is_told_with_its_line(folder: Path) -> None:
    (folder / "regions.yaml").write_bytes("version: 1\n# Zürich\n".encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        load(folder / "job.yaml")
    remedy = "line 2 is not UTF-8 text; save the file as UTF-8"
    assert caught.value.problems == (f"shards.regions: regions.yaml: file: {remedy}",)


def test_a_column_that_is_called_regions_may_divide_the_stream(folder: Path) -> None:
    path = folder / "job.yaml"
    path.write_text(CONFIG.replace(" age: ", " regions: ").replace(", regions: regions.yaml", ""), encoding="utf-8")
    assert load(path).shards.by == "regions"
    assert load(path).shards.regions is None


def test_one_region_is_the_whole_space(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(text(regions=1), encoding="utf-8")
    assert isinstance(read_regions(path, POLICY, 1).root, Region)


@pytest.mark.skipif(not ADULT.is_dir(), reason="UCI Adult is not beside the project")
def test_the_example_fits_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADULT_CSV", "adult.data")
    monkeypatch.setenv("ADULT_HIERARCHIES", str(ADULT))
    regions = load(Path(__file__).parents[3] / "conf" / "adult-regions.yaml").shards.regions
    assert regions is not None
    assert len(regions) == 8
