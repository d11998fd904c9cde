"""Settings around a configured one, and the sections of a file that they become."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.durations import format_duration
from crenel.anonymity.model.secret import SubjectKey
from crenel.evidence.plan.choice import Wanted
from crenel.evidence.plan.grid import Grid, around, neighbors
from crenel.evidence.plan.plan import Limits
from crenel.evidence.plan.point import Point
from crenel.evidence.sample import Sample
from crenel.jobs.cli.plan import PlanError, _replaced, delay_limit, parse_delay, parse_share, parse_varied
from crenel.jobs.config.load import load
from crenel.plan_settings import PlannedSettings, setting_of
from crenel.settings_file import override, read
from tests.evidence.test_replay import timed

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "conf" / "demo.yaml"
WINDOWS = ("algorithm=suhdsa", "nearest=~", "suhdsa={tuples: 50, delay: {tuples: 300}, neighbors: 4}")


@pytest.fixture(autouse=True)
def demo_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRENEL_DEMO_INPUT", "/nowhere/in.csv")
    monkeypatch.setenv("CRENEL_DEMO_OUTPUT", "/nowhere")


def written_of(*overrides: str) -> PlannedSettings:
    settings = load(DEMO, overrides).settings
    return PlannedSettings(settings, settings.privacy, Path("/nowhere"))


def grid_around(written: PlannedSettings, sample: Sample, wanted: Wanted, own: dict[str, Any]) -> Grid:
    return around(setting_of(written.settings, written.privacy), sample, wanted, own)


def sample_of(tuples: int = 2000, gap: int = 60_000, lag: int = 0) -> Sample:
    """Return a sample with one row every ``gap`` milliseconds, without sensitive columns."""
    return timed(np.arange(tuples) * gap, lag)


def configured(written: PlannedSettings) -> Point:
    return Point.of(setting_of(written.settings, written.privacy))


@pytest.mark.parametrize("overrides", [(), WINDOWS, ("nearest.delay={tuples: 70, jitter: 0.5}",)])
def test_the_configured_setting_becomes_the_configuration_that_there_is(overrides: tuple[str, ...]) -> None:
    written = written_of(*overrides)
    point = configured(written)
    assert written.of(point) == written.settings


def test_every_setting_of_the_grid_is_loaded_as_it_says() -> None:
    kept = ("nearest.delay.jitter=0.25", "nearest.reuse_limit=1000")
    written = written_of(*kept)
    grid = grid_around(written, sample_of(), Wanted(k=10, l=2), {})
    grid = replace(
        grid, algorithms=("nearest", "castle", "suhdsa", "mondrian"), shards=((4, "subject"), (1, "subject"))
    )
    points = grid.points(60)
    assert len(points) == len(set(points)) == 60
    assert points[0] == configured(written)
    assert {point.algorithm for point in points} == {"nearest", "castle", "suhdsa", "mondrian"}
    for point in points:
        config = written.of(point)
        assert (config.algorithm.name, config.privacy.k, config.privacy.l) == (point.algorithm, point.k, point.l)
        assert (config.shards.count, config.shards.by) == (point.shards, point.by)
        assert config.algorithm.delay_bounds == (point.tuples, point.milliseconds)
        if point.algorithm == "castle":  # what both have stays
            assert isinstance(config.algorithm, Castle)
            assert (config.algorithm.delay.jitter, config.algorithm.reuse_limit) == (0.25, 1000)


def test_delays_are_chosen_for_the_one_that_is_wanted_by_the_rate_of_the_sample() -> None:
    written = written_of("shards={count: 2}")
    sample = sample_of(gap=30_000, lag=600_000)  # two a minute, one in each shard
    grid = grid_around(written, sample, Wanted(delay=70 * 60_000, k=10, l=2), {})
    tuples, milliseconds = grid.waits[0]
    assert milliseconds == 54 * 60_000  # 0.9 of the hour that the watermark leaves
    assert tuples == 54


@pytest.mark.parametrize("algorithm", ["castle", "suhdsa", "mondrian"])
def test_a_block_can_be_pasted_into_the_configuration(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRENEL_SUBJECT_KEY", "another")  # a key is not written
    overrides = (*WINDOWS, "sinks.windows={connector: blackhole}")
    written = written_of(*overrides)
    point = Point(algorithm, 20, 3, 400, 3_600_000, 2, "subject", (("subject_key", "another"),))
    text = written.block(point, "")
    taken = written.of(point)
    content = dict(read(DEMO))
    assert override(content, overrides) == []
    for section in _replaced(written, point, load(DEMO, overrides)):
        outer, _, inner = section.rpartition(".")
        (content[outer] if outer else content).pop(inner, None)
    whole = tmp_path / "pasted.yaml"
    content["policy"]["quasi_identifiers"] = {
        name: of | ({"hierarchy": str(DEMO.parent / of["hierarchy"])} if "hierarchy" in of else {})
        for name, of in content["policy"]["quasi_identifiers"].items()
    }
    content.pop("subject_key")
    whole.write_text(yaml.safe_dump(content) + text, encoding="utf-8")
    config = load(whole)
    for name in ("algorithm", "privacy", "shards", "subject_key"):
        assert getattr(config, name) == getattr(taken, name)
    assert ("windows" in config.sinks) == (algorithm == "suhdsa")
    assert (config.privacy.k, config.privacy.l, config.subject_key) == (20, 3, SubjectKey.of(b"another"))


def test_neighbors_are_one_step_away() -> None:
    written = written_of()
    grid = grid_around(written, sample_of(), Wanted(k=10, l=1), {})
    point = Point("nearest", 10, 1, 200, 3_600_000, 4, "subject")
    found = list(neighbors(point, grid))
    assert ("k", replace(point, k=20)) in found
    assert ("delay", replace(point, tuples=100, milliseconds=30 * 60_000)) in found
    assert ("shards", replace(point, shards=2)) in found
    assert ("algorithm", replace(point, algorithm="castle")) in found
    assert not any(name == "l" for name, _ in found)  # there is nothing sensitive to be diverse
    for _, other in found:
        differing = [name for name in vars(point) if getattr(point, name) != getattr(other, name)]
        assert len(differing) == 1 or differing == ["tuples", "milliseconds"]


def test_what_is_varied_replaces_a_dimension() -> None:
    written = written_of()
    own = parse_varied(("k=5, 7", "delay=90 s,30 tuples", "shards=2,8 by regions", "nearest.loss_window=10,20"))
    grid = grid_around(written, sample_of(), Wanted(k=10, l=2), own)
    assert grid.k == (5, 7)
    assert grid.waits == ((None, 90_000), (30, None))
    assert grid.shards == ((2, "subject"), (8, "regions"))
    assert {point.further for point in grid.points(500)} == {
        (("nearest.loss_window", "10"),),
        (("nearest.loss_window", "20"),),
    }


@pytest.mark.parametrize(
    ("text", "names"),
    [("k=0", "--vary k"), ("k", "--vary"), ("algorithm=castel", "--vary algorithm"), ("delay=5", "--vary delay"),
     ("shards=0", "--vary shards"), ("color=red", "--vary")],
)  # fmt: skip
def test_a_dimension_that_cannot_be_is_named(text: str, names: str) -> None:
    assert known_algorithms()
    with pytest.raises(PlanError, match=f"^{names}: "):
        parse_varied((text,))


def test_bounds_are_read_with_their_units() -> None:
    assert (parse_delay("10min", "x"), parse_delay("1000 tuples", "x")) == ((None, 600_000), (1000, None))
    assert (parse_share("1%", "x"), parse_share("0.05", "x")) == (0.01, 0.05)
    for text in ("150%", "many", "-1"):
        with pytest.raises(PlanError, match=r"^x: "):
            parse_share(text, "x")
    for text in ("10", "soon"):
        with pytest.raises(PlanError, match=r"^--max-delay: "):
            parse_delay(text, "--max-delay")
    assert (delay_limit((None, 5), timed=True), delay_limit((6, None), timed=False)) == (5, 6)
    with pytest.raises(PlanError, match="no event time"):
        delay_limit((None, 5), timed=False)
    with pytest.raises(PlanError, match="has event time"):
        delay_limit((5, None), timed=True)
    written = written_of()
    wanted = Limits(loss=0.2).wanted(setting_of(written.settings, written.privacy))
    assert (wanted.k, wanted.l, wanted.sooner) == (10, 2, True)


def test_durations_are_written_as_they_are_read() -> None:
    for milliseconds in (1, 1500, 90_000, 3_600_000, 36_000_000, 86_400_000):
        assert parse_delay(format_duration(milliseconds), "x") == (None, milliseconds)
