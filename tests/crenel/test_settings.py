"""Settings as Python objects have the fields, defaults and errors of the configuration file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_origin

import numpy as np
import pytest
from hypothesis import Phase, find, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import crenel
from crenel.anonymity.builtin import ALGORITHMS, PRIVACY_MODELS
from crenel.anonymity.model.explain import fields_of, fields_within, sections
from crenel.anonymity.model.privacy_model import known_privacy_models
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.jobs.config.load import JobSections
from crenel.regions_file import regions_text
from crenel.settings import JOB
from crenel.settings_file import expand, parse
from examples.own_algorithm import InOrder
from examples.own_privacy_model import AT_MOST
from tests.crenel.stream import settings
from tests.support.launch import DATA, ROOT

# Text that YAML, or the variables of a file, would read as something else.
TEXT = st.sampled_from(
    ["a", "$", "${HOME}", "a$$b", "$${file:x}", "x: #y", "null", "1", "2024-01-31", "yes", "é ", "epoch"]
)
COUNT, SHARE, NUMBER = st.integers(2, 9), st.floats(0.01, 0.99), st.floats(-1e6, 1e6)
DURATION = st.integers(1, 10**8) | st.sampled_from(["10 min", "2 h", timedelta(seconds=90)])
DAY = st.sampled_from(["2024-02-29", "2024-02-29 08:30:00.001"])
AGE, AREA, ILL = "age", "area", "ill"
CONTRACT = """
apiVersion: v3.1.0
kind: DataContract
id: visits
version: 1.0.0
status: active
schema: [{name: visits, properties: [{name: age}, {name: area}, {name: who, tags: [pii]}]}]
"""


def hierarchies() -> list[dict[str, Any]]:
    """Return a hierarchy of each kind, with every field of it."""
    return [
        {"file": "$tree.csv"},
        {"values": ["$x", "y"]},
        {"groups": {"north": ["$x", "y"], "south": {"east": ["z"]}}},
        {"ordered": {"values": ["$x", "y", "z"], "widths": [2]}},
        {"numbers": {"domain": [0, 7], "levels": [1, 2], "origin": 2.0, "whole": False, "open": True}},
        {"mask": {"keep": [2, 1], "length": 2, "alphabet": "a$b"}},
        {"mask": {"keep": [2, 1], "values": ["$x", "yz"]}},
        {"dates": {"domain": ["2024-01-01", "2024-03-01"], "levels": ["day", "month"]}},
        {"ip": {"networks": ["10.0.0.0/30"], "levels": [32, 31]}},
        {"times": {"levels": ["hour", "part"]}},
        {"weekdays": {"levels": ["part"]}},
        {"geohash": {"levels": [2, 1], "within": ["u4", "u5"]}},
        {"quadkey": {"levels": [3, 2], "within": ["12"]}},
        {"h3": {"levels": [5, 4], "within": ["841f1d5ffffffff"]}},
    ]


def parts() -> Iterator[dict[str, Any]]:
    """Yield parts of files with strategies in the place of values; together they have every field."""
    number = {"type": "numeric", "domain": [0, 100]}
    for quasi in (
        {AGE: {**number, "step": SHARE, "ends": COUNT, "missing": "value"}},
        {AGE: {**number, "publish": st.sampled_from(["mean", "median"])}},
        {
            AGE: {
                "type": "numeric",
                "domain": st.tuples(DAY, st.just("2025-01-01T00:00:00+01:00")),
                "step": "1 h",
                "ends": "1 d",
            }
        },
        {AREA: {"type": "categorical", "hierarchy": "$tree.csv", "publish": st.sampled_from(["set", "mode"])}},
        {"$${x}": number},
    ):
        yield {"policy": {"quasi_identifiers": quasi}}
    for count, hierarchy in enumerate(hierarchies()):
        yield {"policy": {"quasi_identifiers": {AREA: {"type": "categorical", "hierarchy": hierarchy}}}}
        yield {"policy": {"generalized": {ILL: {"hierarchy": hierarchy, "level": 0}}}}
        own = {"t": SHARE, "reference": f"$shares-{count}.csv", "distance": "hierarchical", "hierarchy": hierarchy}
        yield {"privacy": {"sensitive": {ILL: own}}}
    for own in (
        {"drop": st.lists(TEXT, max_size=3, unique=True)},
        {"passthrough": st.lists(TEXT, max_size=3, unique=True)},
        {"subject": TEXT, "subject_normalization": st.sampled_from([["nfc"], ["nfc", "trim"]])},
        {"event_time": TEXT, "event_time_limit": DURATION},
        {"reference": TEXT},
        {"missing": "value", "neutralize_formulas": True},
        {"arrays": {ILL: COUNT}},
    ):
        yield {"policy": own}
    pseudonym = {"column": TEXT, "scope": st.sampled_from(["stream", "release"]), "accept_linkable": True}
    yield {"policy": {"pseudonym": pseudonym, "subject": "person"}, "subject_key": "sixteen bytes of $HOME"}
    yield {"policy": {"pseudonym": pseudonym, "subject": "person"}, "subject_key": {"environment": "CRENEL_DRAWN_KEY"}}
    contract = {"file": "$contract.yaml", "schema_name": "visits", "confirmed": ["who"]}
    yield {"policy": {"contract": contract, "passthrough": ["who"]}}
    yield {"privacy": {"k": st.integers(5, 99), "l": st.integers(1, 4)}}
    models = {"alpha": SHARE, "t": SHARE, "entropy_l": st.floats(1, 4), "beta": st.floats(0.1, 9)}
    models[AT_MOST.name] = SHARE
    models["recursive"] = st.fixed_dictionaries({"c": st.floats(0.5, 9), "l": st.integers(2, 4)})
    for name, model in models.items():
        yield {"privacy": {name: model}}
        yield {"privacy": {"sensitive": {ILL: {name: model, "l": st.integers(1, 4)}}}}
    lasting = {"guarantee": "lasting", "horizon": DURATION, "moved": st.sampled_from(["suppress", "widen"])}
    in_time = {"algorithm": "nearest", "nearest": {"delay": {"event_time": 1000}}}
    yield {"privacy": {"persons": lasting}, "policy": {"subject": "person", "event_time": "at"}, **in_time}
    within = {
        "epsilon": COUNT,
        "scale": st.sampled_from(["domain", "release"]),
        "least": SHARE,
        "shares": {"$h": 0.25, "w": 0.75},
    }
    within["confidence"] = {"c": SHARE, "k": st.integers(2, 4)}
    noised = {"$h": {"domain": [100, 220.5], "step": SHARE}, "w": {"domain": [0, 9]}}
    yield {"privacy": {"noise_within_release": within}, "policy": {"noised": noised}}
    noise = {"sample_rate": SHARE, "range": st.sampled_from(["declared", "observed"])}
    yield {"sampling_and_noise": {**noise, "phi": st.floats(1, 1000)}}
    yield {"sampling_and_noise": {**noise, "within": {"share": SHARE, "probability": SHARE}}}
    yield {"shards": {"count": COUNT, "by": st.sampled_from(["subject", AGE, AREA])}}
    yield {"shards": {"count": 2, "by": "regions", "regions": "$regions.yaml"}}
    yield {"seed": st.integers(0, 2**63 - 1), "epoch": COUNT, "extensions": ["examples.own_algorithm"]}


def of_algorithms() -> Iterator[dict[str, Any]]:
    """Yield algorithms with their sections."""
    delay = {"tuples": st.integers(10, 10**9), "event_time": DURATION, "jitter": SHARE}
    delayed = {"delay": delay, "loss_window": COUNT, "reuse_limit": COUNT, "weights": {AGE: st.floats(0.1, 9)}}
    delayed["suppression"] = st.sampled_from(["withhold", "generalize"])
    window = {"tuples": st.integers(99, 999), "event_time": DURATION}
    suhdsa = {"distortion_weight": SHARE, "neighbors": COUNT, "growth_cap": st.floats(2, 9), "weights": {AGE: 0.5}}
    suhdsa |= {"output": st.sampled_from(["generalization", "representative"]), "numeric": "median"}
    suhdsa |= {"categorical": "ancestor", "target": {"most": 4, "smoothing": SHARE, "band": SHARE, "dwell": COUNT}}
    suhdsa |= {"adaptive": {"least": 99, "delay_weight": SHARE, "windows": COUNT}, "tuples": st.integers(100, 999)}
    cells = {"partition": "$cells.yaml", "epsilon": 20.0, "delta": st.floats(1e-6, 1e-3), "windows": COUNT}
    for name, section in (
        ("castle", {**delayed, "max_clusters": COUNT}),
        ("nearest", {**delayed, "isolation_price": SHARE}),
        ("suhdsa", {**suhdsa, "event_time": 1000, "delay": {"tuples": 1000, "event_time": "2 h", "jitter": 0.0}}),
        ("mondrian", {"window": window, "cut": "widest"}),
        ("ola", {"window": window, "max_suppression": SHARE, "metric": st.sampled_from(["discernibility", "entropy"])}),
        ("cells", {**cells, "sample_rate": 0.2, "window": "1 h", "lateness": DURATION}),
        ("cells", {**cells, "release": "noisy", "window": "1 h", "horizon": "1 day"}),
    ):
        numbers = {"type": "categorical", "hierarchy": {"numbers": {"domain": [0, 9], "levels": [1, 2]}}}
        quasi = {"quasi_identifiers": {AGE: numbers}} if name == "ola" else {}
        yield {"algorithm": name, name: section, "policy": {"event_time": "at", **quasi}, "privacy": {"k": 50}}


def drawn_of(tree: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a part of a file whose leaves may be strategies."""
    if isinstance(tree, dict):
        return st.fixed_dictionaries({name: drawn_of(each) for name, each in tree.items()})
    return tree if isinstance(tree, st.SearchStrategy) else st.just(tree)


def named(tree: Mapping[str, Any], kind: type, prefix: str) -> Iterator[str]:
    """Yield the names of the fields in a part of a file as ``fields_within`` has them."""
    for key, value in tree.items():
        if key == "type":
            continue
        field, name = fields_of(kind)[key], f"{prefix}.{key}"
        inner = [*sections(field.annotation)]
        for part in value.values() if get_origin(field.annotation) is dict else [value]:
            if not inner:
                yield name
            elif isinstance(part, Mapping):
                of = next(each for each in inner if part.keys() - {"type"} <= fields_of(each).keys())
                yield from named(part, of, name)


SECTIONS = {
    "policy": crenel.Policy,
    "privacy": crenel.Privacy,
    "sampling_and_noise": crenel.SamplingAndNoise,
    "shards": crenel.Shards,
    **{kind.name: kind for kind in ALGORITHMS},
}
FIRST = hypothesis_settings(phases=[Phase.generate], database=None)
BASE: dict[str, Any] = {
    "policy": {
        "quasi_identifiers": {
            AGE: {"type": "numeric", "domain": [0, 100]},
            AREA: {"type": "categorical", "hierarchy": "$tree.csv"},
        },
        "sensitive": [ILL],
    },
    "privacy": {"k": 5},
    "algorithm": "nearest",
    "nearest": {"delay": {"tuples": 50}},
}


def merged(content: Any, change: Any) -> Any:
    """Return a part of a file with the fields of another one."""
    if not isinstance(content, Mapping) or not isinstance(change, Mapping) or {"type", "hierarchy"} & change.keys():
        return change
    return {**content, **{name: merged(content.get(name), each) for name, each in change.items()}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder with the files that drawn settings name."""
    folder = tmp_path_factory.mktemp("$drawn")
    (folder / "$tree.csv").write_text("x;*\ny;*\n", encoding="utf-8")
    for count, hierarchy in enumerate(hierarchies()):
        tree = crenel.Categorical({"x": ["*"], "y": ["*"]} if "file" in hierarchy else hierarchy).hierarchy
        shares = "".join(f'"{label}",{count + 1}\n' for label in tree.labels_of(np.arange(2)))
        (folder / f"$shares-{count}.csv").write_text(f"value,count\n{shares}", encoding="utf-8")
    policy = crenel.Settings.of_sections(BASE, folder, "x").policy
    cut = RegionTree.of(Cut(0, 50.0, Region(0.5, 0.5), Region(0.5, 0.5)))
    for name in ("$regions.yaml", "$cells.yaml"):
        (folder / name).write_text(regions_text(policy, cut, 10, 10), encoding="utf-8")
    (folder / "$contract.yaml").write_text(CONTRACT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRENEL_DRAWN_KEY", "sixteen bytes of $HOME")
        yield folder


def made_of(changes: list[dict[str, Any]], folder: Path) -> crenel.Settings:
    """Return settings with those changes that go together."""
    content, made = BASE, crenel.Settings.of_sections(BASE, folder, "x")
    for change in changes:
        changed = merged(content, change)
        if changed["algorithm"] != content["algorithm"]:
            del changed[content["algorithm"]]
        with suppress(crenel.ConfigError):
            made = crenel.Settings.of_sections(changed, folder, "x")
            content = changed
    return made


def require_same(made: crenel.Settings, folder: Path) -> None:
    """Fail if settings differ from those that are read from what they write."""
    text = made.to_yaml()
    environment = {"CRENEL_SUBJECT_KEY": "sixteen bytes of $HOME"}
    content, unset = expand(parse(text), environment)
    assert not unset
    read = crenel.Settings.of_sections(content, folder, "x")
    assert read.to_yaml() == text
    for again in (read, replace(made)):
        assert again.to_yaml() == text
        for field in dataclasses.fields(made):
            assert getattr(again, field.name) == getattr(made, field.name), field.name


def test_every_field_is_drawn() -> None:
    of_tests = known_privacy_models().keys() - {model.name for model in (*PRIVACY_MODELS, AT_MOST)}
    known = {
        f"{name}.{path}"
        for name, kind in SECTIONS.items()
        for path, _ in fields_within(kind)
        if not of_tests.intersection(path.split("."))
    }
    others = {f.name for f in dataclasses.fields(crenel.Settings)} - SECTIONS.keys() - {"algorithm", "folder"}
    drawn = {
        name
        for part in (BASE, *parts(), *of_algorithms())
        for section, tree in part.items()
        for name in (named(tree, SECTIONS[section], section) if section in SECTIONS else [section])
    }
    assert (known | others) - drawn == set()


def test_each_part_is_valid_alone(folder: Path) -> None:
    base = crenel.Settings.of_sections(BASE, folder, "x")
    for part in (*parts(), *of_algorithms()):
        if part != {"policy": {"quasi_identifiers": {AREA: {"type": "categorical", "hierarchy": hierarchies()[0]}}}}:
            found = find(drawn_of(part), lambda each: made_of([each], folder) != base, settings=FIRST)
            require_same(made_of([found], folder), folder)


@given(st.lists(st.one_of([drawn_of(part) for part in (*of_algorithms(), *parts())]), max_size=8))
def test_settings_are_read_back_as_they_were(folder: Path, changes: list[dict[str, Any]]) -> None:
    require_same(made_of(changes, folder), folder)


def test_a_job_adds_the_sections_that_settings_skip() -> None:
    assert JobSections.model_fields.keys() == set(JOB)
    assert not set(JOB) & {f.name for f in dataclasses.fields(crenel.Settings)}


@pytest.mark.parametrize("path", sorted((ROOT / "conf").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_and_its_settings_are_the_same(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DATA / "adult"
    if "adult" in path.name and not data.exists():
        pytest.skip("../shared/data is not there")
    monkeypatch.setenv("ADULT_HIERARCHIES", str(data))
    monkeypatch.setenv("CRENEL_SUBJECT_KEY", "sixteen bytes 16")
    read = crenel.load(path)
    (tmp_path / "hierarchies").symlink_to(ROOT / "conf/hierarchies")
    (tmp_path / "regions").symlink_to(ROOT / "conf/regions")
    (tmp_path / path.name).write_text(read.to_yaml(), encoding="utf-8")
    again = crenel.load(tmp_path / path.name)
    assert dataclasses.replace(again, folder=read.folder, subject_key=read.subject_key) == read


def test_overrides_of_a_file_are_those_of_the_command_line() -> None:
    assert crenel.load(ROOT / "conf/built.yaml", ["privacy.k=7"]).privacy.k == 7
    with pytest.raises(crenel.ConfigError, match=r"privacy\.k: must be a whole number"):
        crenel.load(ROOT / "conf/built.yaml", ["privacy.k=many"])


def test_durations_are_milliseconds_texts_or_timedeltas() -> None:
    for duration in (7_200_000, "2 h", timedelta(hours=2)):
        made = settings(algorithm="nearest")
        made = dataclasses.replace(made, algorithm=crenel.Nearest(crenel.Delay(event_time=duration)))
        assert made.algorithm.delay.event_time == 7_200_000


def test_errors_name_each_field_and_a_valid_form() -> None:
    def problem(make: Callable[[], object]) -> str:
        with pytest.raises(crenel.ConfigError) as caught:
            make()
        (found,) = caught.value.problems
        return found

    assert problem(lambda: crenel.Numeric((90, 18))).startswith("domain: the lower bound is above the upper one")
    assert problem(lambda: crenel.Privacy(0)) == "k: is too small; a whole number, 1 or more"
    assert problem(crenel.Delay) == "give 'tuples', 'event_time', or both; without either nothing would leave"
    assert problem(lambda: replace(settings(), seed=-1)).startswith("seed: is too small; a whole number from 0")


def test_a_key_is_not_shown_and_not_written() -> None:
    made = settings(subject_key="correct horse battery staple")
    assert "horse" not in repr(made)
    made = dataclasses.replace(
        made, policy=dataclasses.replace(made.policy, quasi_identifiers={"age": crenel.Numeric()})
    )
    assert "horse" not in made.to_yaml()
    assert "subject_key: ${CRENEL_SUBJECT_KEY}" in made.to_yaml()


def test_a_hierarchy_given_as_an_object_is_not_written() -> None:
    with pytest.raises(ValueError, match=r"policy\.quasi_identifiers\.area\.hierarchy: is an object"):
        settings().to_yaml()


def test_an_algorithm_of_ones_own_has_its_section() -> None:
    made = crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 9))}),
        privacy=crenel.Privacy(k=2),
        algorithm=InOrder(),
        extensions=["examples.own_algorithm"],
    )
    assert made.algorithm.name == "in_order"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"folder": 5}, "folder: is not a path; give text or a Path"),
        (
            {"extensions": ["nope"]},
            "extensions: the module 'nope' cannot be imported (No module named 'nope'); it must",
        ),
        ({"extensions": [".nope"]}, "extensions: the module '.nope' cannot be imported"),
        ({"extensions": [""]}, "extensions[0]: is empty"),
        ({"extensions": "nope"}, "extensions: must be a list of Python modules"),
    ],
)
def test_a_folder_and_extensions_are_checked_at_once(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(crenel.ConfigError) as caught:
        replace(settings(), **wrong)
    (found,) = caught.value.problems
    assert found.startswith(problem)


def test_a_folder_as_text_is_a_path() -> None:
    folder: Any = "conf"
    assert replace(settings(), folder=folder).folder == Path("conf")


@pytest.mark.parametrize(
    "make",
    [
        lambda: crenel.Numeric(0, 110),  # type: ignore[arg-type]
        lambda: crenel.Numeric((0,)),  # type: ignore[arg-type]
        lambda: crenel.Numeric("2024-01-01", "2024-12-31"),  # type: ignore[arg-type]
        lambda: crenel.Noised(0, 110),  # type: ignore[arg-type]
        lambda: crenel.Numbers(0, 110),  # type: ignore[arg-type]
        lambda: crenel.Dates("2024-01-01", ["day"]),  # type: ignore[arg-type]
    ],
)
def test_a_domain_is_a_pair(make: Callable[[], object]) -> None:
    with pytest.raises(crenel.ConfigError) as caught:
        make()
    assert re.match(
        r"domain(\[1\])?: is (not a list|missing); \[(lowest, highest|first, last)\], two", caught.value.problems[0]
    )


@pytest.mark.parametrize("lateness", [-5, 1.5, True, "soon", timedelta(-1), timedelta(microseconds=1), None])
def test_a_lateness_that_is_no_duration_is_refused_at_once(lateness: Any) -> None:
    with pytest.raises(ValueError, match=r"^lateness: must be whole milliseconds, 0 or more, or a text such as"):
        crenel.open_stream(settings(), lateness=lateness)


def test_the_epoch_and_dollars_survive(tmp_path: Path) -> None:
    made = replace(settings(), subject_key="sixteen bytes of $HOME", epoch=3)
    quasi: Any = {"${HOME}": crenel.Numeric((0, 1)), "a$$b": crenel.Categorical("${file:x}$.csv")}
    (tmp_path / "${file:x}$.csv").write_text("a;*\nb;*\n", encoding="utf-8")
    policy = crenel.Policy(quasi_identifiers=quasi, sensitive=["$", "$${HOME}"], subject="${person}")
    made = replace(made, policy=policy, folder=tmp_path)
    assert "HOME of" not in made.to_yaml()
    (tmp_path / "job.yaml").write_text(
        made.to_yaml().replace("${CRENEL_SUBJECT_KEY}", "sixteen bytes of $$HOME"), encoding="utf-8"
    )
    read = crenel.load(tmp_path / "job.yaml")
    assert replace(read, seed=5).epoch == read.epoch == 3
    assert read.policy.sensitive == ("$", "$${HOME}")
    assert read.policy.subject == "${person}"
    assert read.to_yaml() == replace(read, seed=read.seed).to_yaml()
    assert read.subject_key == made.subject_key
    assert read.policy.quasi_identifiers.keys() == quasi.keys()


@pytest.mark.parametrize(
    "make",
    [
        crenel.Privacy,
        crenel.Delay,
        lambda it: crenel.Delay(event_time=it),
        lambda it: crenel.Numeric((it, 3)),
        lambda it: crenel.Numeric(step=it),
    ],
)
def test_a_boolean_is_no_number(make: Callable[[bool], object]) -> None:
    with pytest.raises(crenel.ConfigError, match="is a Boolean"):
        make(True)
    with pytest.raises(crenel.ConfigError, match="alpha: is not a number"):
        crenel.Privacy(3, alpha=True)


def test_a_file_with_several_problems_lists_them_all(folder: Path) -> None:
    wrong = {"policy": {"quasi_identifiers": {AGE: {"type": "numeric", "domain": [90, 18]}}}, "privacy": {"k": 0}}
    with pytest.raises(crenel.ConfigError) as caught:
        crenel.Settings.of_sections({**BASE, **wrong}, folder, "x")
    fields = [problem.partition(": ")[0] for problem in caught.value.problems]
    assert fields == [f"policy.quasi_identifiers.{AGE}.domain", "privacy.k"]
