"""``crenel budget``: what it shows of a configuration, and where it has nothing to show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from math import log
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from crenel.anonymity.noise.budget import delta, largest_sample_rate, smallest_epsilon
from crenel.evidence.budget import Budget, Reach, account
from crenel.jobs.cli.budget import budget_in_short, in_words
from crenel.jobs.config.load import load
from crenel.jobs.pipeline.layout import SourceColumns, layout
from tests.jobs.cli.test_app import DEMO, ROOT, crenel, demo_variables
from tests.support.launch import environment

__all__ = ["demo_variables"]  # a fixture that every test here uses

SALARY = "policy.quasi_identifiers.salary={type: numeric, domain: [0, 120000], step: 100}"
HALF = "sampling_and_noise={sample_rate: 0.5, phi: 100}"


def budget(*arguments: str | Path, privacy: str = HALF, salary: str = SALARY) -> Result:
    return crenel("budget", DEMO, "--set", privacy, "--set", salary, *arguments)


def figures(*arguments: str | Path, **settings: str) -> dict[str, Any]:
    result = budget("--json", *arguments, **settings)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def budget_of(*overrides: str) -> Budget:
    config = load(DEMO, overrides)
    assert config.sampling_and_noise is not None
    return account(config.policy, config.privacy.k, config.sampling_and_noise)


def test_the_figures_follow_from_the_configuration() -> None:
    found = figures()
    assert (found["k"], found["sample_rate"], found["phi"], found["range"]) == (10, 0.5, 100, "declared")
    assert found["smallest_epsilon"] == pytest.approx(log(2))
    epsilons = [row["epsilon"] for row in found["deltas"]]
    assert epsilons == [found["smallest_epsilon"], 1, 2, 3, 5, 8, 12]
    assert [row["delta"] for row in found["deltas"]] == [delta(10, 0.5, epsilon) for epsilon in epsilons]
    assert found["wanted"] is None
    assert [warning.split(":")[0] for warning in found["warnings"]] == ["seed"]  # of the demo


def test_noise_is_told_in_the_unit_of_each_attribute() -> None:
    noise = {row["attribute"]: row for row in figures()["noise"]}
    assert list(noise) == ["age", "area", "education", "salary"]
    assert noise["age"] == {
        **{"attribute": "age", "type": "numeric", "unit": "own", "range": 82, "step": None, "scale": 0.82},
        "within": {"0.5": 0, "0.95": 2, "0.99": 4},
    }
    assert (noise["area"]["unit"], noise["area"]["range"], noise["area"]["scale"]) == ("leaves", 59, 0.59)
    salary = noise["salary"]
    assert (salary["range"], salary["step"], salary["scale"]) == (120_000, 100, 1200)
    assert salary["within"] == {"0.5": 800, "0.95": 3600, "0.99": 5500}


def test_the_epsilons_that_are_asked_for_are_shown_and_no_others() -> None:
    found = figures("--epsilon", "3", "--epsilon", "0.1", "--epsilon", "0")
    assert found["deltas"] == [
        {"epsilon": 3, "delta": delta(10, 0.5, 3)},
        {"epsilon": 0.1, "delta": None},
        {"epsilon": 0, "delta": None},
    ]
    shown = budget("--epsilon", "3", "--epsilon", "0.1").stdout
    assert "none: too small" in shown


def test_the_largest_rate_for_what_is_wanted_is_told() -> None:
    arguments = ("--wanted-epsilon", "1", "--wanted-delta", "1e-6")
    rate = largest_sample_rate(10, 1, 1e-6)
    assert figures(*arguments)["wanted"] == {"epsilon": 1, "delta": 1e-6, "sample_rate": rate}
    assert f"The largest sample_rate is {rate}." in budget(*arguments).stdout
    none = budget("--wanted-epsilon", "1e-13", "--wanted-delta", "0.1")
    assert "No sample_rate gives them." in none.stdout


def test_a_promise_is_never_shown_better_than_it_is() -> None:
    lines = [line.split() for line in budget().stdout.splitlines()]
    # 0.693147 with 0.046142, and 0.0009765625: up where it is promised, and down where it is a bound from below.
    assert ["0.6932", "0.0462"] in lines
    assert "The smallest epsilon is 0.6932: -ln(1 - sample_rate).".split() in lines
    assert "No epsilon brings delta below 0.000976: sample_rate^k.".split() in lines


def test_tiny_figures_are_shown_with_their_digits() -> None:
    found = budget("--set", "privacy.k=1000", privacy="sampling_and_noise={sample_rate: 0.00001, phi: 100}").stdout
    assert "The smallest epsilon is 1.001e-05:" in found
    assert "No epsilon brings delta below 1e-5000: sample_rate^k." in found
    rate = budget("--set", "privacy.k=2", "--wanted-epsilon", "0.01", "--wanted-delta", "1e-12").stdout
    assert "The largest sample_rate is 0.000000007053." in rate


def test_without_sampling_no_epsilon_is_shown() -> None:
    every = "sampling_and_noise={sample_rate: 1, phi: 100}"
    found = figures(privacy=every)
    assert (found["smallest_epsilon"], found["deltas"]) == (None, [])
    result = budget(privacy=every)
    assert "Every tuple is admitted: no epsilon is guaranteed." in result.stdout
    assert "warning: sampling_and_noise.sample_rate: 1 lets every tuple in" in result.stderr


def test_the_observed_range_is_warned_of_and_noise_is_told_in_shares_of_it() -> None:
    observed = "sampling_and_noise={sample_rate: 0.5, within: {share: 0.05, probability: 0.99}, range: observed}"
    found = figures(privacy=observed)
    age = found["noise"][0]
    assert (age["unit"], age["range"]) == ("% of range", None)
    assert age["within"]["0.99"] == pytest.approx(5)
    assert found["warnings"][0].startswith("sampling_and_noise.range: observed")
    assert "warning: sampling_and_noise.range: observed" in budget(privacy=observed).stderr


def test_a_step_that_is_not_known_yet_is_said_to_be_assumed() -> None:
    assumed = "An integer column has the step 1"
    assert assumed in budget().stdout
    assert assumed not in budget("--set", "policy.quasi_identifiers.age.step=1").stdout


def test_what_check_shows_fits_on_a_line_each() -> None:
    lines = dict(budget_in_short(budget_of(SALARY, HALF)))
    assert lines["sample_rate"] == "0.5 of all tuples are admitted"
    assert lines["epsilon, delta"] == "0.6932, 0.0462; no epsilon brings delta below 0.000976"
    assert lines["noise"] == "salary: scale 1200, in steps of 100; 95 % move by 3600 or less"
    leaves = Reach("area", "categorical", "leaves", 59.0, 1.0, 0.59, (0.0, 2.0, 3.0))
    assert in_words(leaves) == "scale 0.59 leaves; 95 % move by 2 leaves or less"


def test_the_operator_is_told_of_sampling_and_noise_with_every_step() -> None:
    config = load(DEMO, [SALARY, HALF])
    types = {"age": "INT", "salary": "DOUBLE", "visited": "TIMESTAMP_LTZ(3) *ROWTIME*"}
    columns = dict.fromkeys(config.policy.roles, "STRING") | types
    found = layout(config, SourceColumns(columns, has_watermark=True))
    terms = found.plan.context
    assert terms.sampling_and_noise == config.sampling_and_noise is not None
    assert [attribute.step for attribute in terms.policy.numeric] == [1, 100]
    assert "sampling_and_noise" in terms.fingerprint
    plain = load(DEMO, [SALARY])
    found = layout(plain, SourceColumns(columns, has_watermark=True))
    assert found.plan.context.sampling_and_noise is None


def test_without_sampling_and_noise_there_is_nothing_to_account_for() -> None:
    result = crenel("budget", DEMO)
    assert (result.exit_code, result.stdout) == (2, "")
    neither = "has neither sampling_and_noise nor privacy.noise_within_release nor 'algorithm: cells'"
    assert result.stderr == f"crenel: {DEMO} {neither}, so there is nothing to account for\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--wanted-epsilon", "1"), "--wanted-delta"),
        (("--wanted-delta", "0.1"), "--wanted-epsilon"),
        (("--wanted-epsilon", "0", "--wanted-delta", "0.1"), "--wanted-epsilon"),
        (("--wanted-epsilon", "inf", "--wanted-delta", "0.1"), "--wanted-epsilon"),
        (("--wanted-epsilon", "1", "--wanted-delta", "1"), "--wanted-delta"),
        (("--epsilon", "-1"), "--epsilon"),
        (("--epsilon", "nan"), "--epsilon"),
        (("--epsilon", "inf"), "--epsilon"),
        (("--plot", "picture.pdf"), "--plot"),
        (("--plot", "/nowhere/picture.png"), "--plot"),
    ],
)
def test_an_option_that_cannot_be_is_named(arguments: tuple[str, ...], named: str) -> None:
    result = budget(*arguments)
    assert result.exit_code == 2
    assert named in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_a_picture_is_drawn(tmp_path: Path, name: str, start: bytes) -> None:
    path = tmp_path / name
    result = budget("--plot", path)
    assert result.exit_code == 0, result.stderr
    assert "shows delta against epsilon." in result.stdout
    assert path.read_bytes().startswith(start)
    assert path.stat().st_size > 5000


def test_the_curve_of_a_picture_is_that_of_delta(tmp_path: Path) -> None:
    pictures = []
    for rate in ("0.5", "0.6", "0.5"):
        path = tmp_path / "a.png"
        assert budget("--plot", path, privacy=HALF.replace("0.5", rate)).exit_code == 0
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[2] != pictures[1]


def test_without_sampling_there_is_no_picture(tmp_path: Path) -> None:
    result = budget("--plot", tmp_path / "a.png", privacy="sampling_and_noise={sample_rate: 1, phi: 100}")
    assert result.exit_code == 2
    assert "--plot: sample_rate 1 has no epsilon" in result.stderr


def test_a_picture_without_matplotlib_names_the_extra(tmp_path: Path) -> None:
    # An interpreter that finds no matplotlib, as after an installation without the extra.
    hide = "import sys; sys.modules['matplotlib'] = None; from crenel.jobs.cli.app import app; app()"
    ended = subprocess.run(
        [sys.executable, "-c", hide, "budget", DEMO, "--set", HALF, "--set", SALARY, "--plot", tmp_path / "a.png"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--plot: needs matplotlib: install crenel with its extra 'plot'" in ended.stderr


def test_the_example_of_the_page_of_proofs_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "privacy" / "proofs.md").read_text(encoding="utf-8")
    ((command, shown),) = re.findall(
        r"^`crenel (budget [^`]+)` prints\n\n```\n(.*?)\n```$", page, re.DOTALL | re.MULTILINE
    )
    monkeypatch.setenv("TAXI_CSV", "/nowhere")
    monkeypatch.chdir(ROOT)
    result = crenel(*command.split())
    assert result.exit_code == 0, result.stderr
    assert [line.rstrip() for line in result.stdout.rstrip().splitlines()] == shown.splitlines()
    # Further statements of the text.
    least = smallest_epsilon(0.9)
    assert delta(10, 0.9, least) == pytest.approx(0.9**10)
    assert delta(158, 0.9, least) < 1e-6 < delta(157, 0.9, least)
