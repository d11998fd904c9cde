"""What an observer could do with what left of Adult, taxi and the demo, by algorithm, with reuse and without.

``python -m benchmarks attack`` prints the tables; ``python -m benchmarks.attack_figure`` draws them as well. All of it
are attacks on replays (``crenel.evidence.attack.replays``), with five seeds.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import adult, lasting, window
from benchmarks.castleguard import streams
from benchmarks.nearest import JITTER, of_attributes
from benchmarks.table import Table
from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import CASTLE
from crenel.anonymity.algorithms.castle.parameters import CastleParameters
from crenel.anonymity.algorithms.nearest.algorithm import NEAREST
from crenel.anonymity.algorithms.nearest.parameters import NearestParameters
from crenel.anonymity.algorithms.suhdsa.algorithm import WINDOW
from crenel.anonymity.algorithms.suhdsa.parameters import WindowParameters
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.policy import Shards
from crenel.anonymity.model.privacy import Lasting, Privacy
from crenel.anonymity.privacy_models.builtin import ALPHA
from crenel.evidence.attack.attack_config import Effort, Found
from crenel.evidence.attack.replays import TOLD, attack_replays
from crenel.evidence.attack.result import ALL, PLACED, Attack
from crenel.evidence.replay import replay
from crenel.evidence.sample import Sample
from crenel.evidence.setting import Setting
from crenel.jobs.cli import synthetic

EFFORT = Effort(targets=300, draws=20, tuples=2000)
_EFFORT_WITH_PLACEMENT = replace(EFFORT, within_rows=(0,), within_time=(), known=(), draws=0)
"""Effort of the tables about placement: without the attacks that placement does not change."""
_BLOCK = 2000
_REUSE = 1000


@dataclass(frozen=True)
class Measured:
    """What attacks on one setting came to.

    Attributes
    ----------
    name : of the setting
    k : that was promised
    found : by the attacks
    loss, suppressed : mean loss of released tuples, share of all that were suppressed, of the first seed
    """

    name: str
    k: int
    found: Found
    loss: float
    suppressed: float

    def attack(self, name: str, knows: str = ALL) -> Attack | None:
        """One of the attacks; None where it was not tried."""
        return next((a for a in self.found.attacks if (a.name, a.knows) == (name, knows)), None)


def _adult() -> Sample:
    tuples = adult.stream()
    return Sample.of_blocks(tuples.policy, tuples.blocks(_BLOCK))


def _adult_of_three(values: int) -> Sample:
    tuples = window.plain(0, values)
    return Sample.of_blocks(tuples.policy, tuples.blocks(_BLOCK))


def _taxi() -> Sample:
    tuples = streams.stream(streams.taxi(), streams.TAXI, "FareAmount", "pid")
    return Sample.of_blocks(tuples.policy, tuples.blocks(_BLOCK))


def _demo() -> Sample:
    from crenel.jobs.config.load import load
    from crenel.jobs.local.sample import read_beginning  # imports Flink

    with tempfile.TemporaryDirectory(prefix="crenel-attack-") as folder:
        stream = Path(folder) / "stream.csv"
        synthetic.write(stream, 50_000, 1)
        os.environ |= {"CRENEL_DEMO_INPUT": str(stream), "CRENEL_DEMO_OUTPUT": folder}
        configuration = Path(__file__).resolve().parents[1] / "conf" / "demo.yaml"
        return read_beginning(load(configuration), 50_000).sample


def _settings(privacy: Privacy, delay: int, **of_window: Any) -> dict[str, Setting]:
    """Each algorithm with this delay as it is by default, with reuse, and nearest with a jitter too."""
    chosen: dict[str, tuple[Algorithm, Any]] = {
        "castle": (CASTLE, CastleParameters(delay)),
        "castle, reuse": (CASTLE, CastleParameters(delay, reuse_limit=_REUSE)),
        "nearest": (NEAREST, NearestParameters(delay)),
        "nearest, jitter 0.25": (NEAREST, NearestParameters(delay, delay_jitter=JITTER)),
        "nearest, reuse, jitter 0.25": (NEAREST, NearestParameters(delay, delay_jitter=JITTER, reuse_limit=_REUSE)),
        "window": (WINDOW, WindowParameters(delay_tuples=delay, **of_window)),
    }
    return {name: Setting(algorithm, privacy, parameters) for name, (algorithm, parameters) in chosen.items()}


def _paper(k: int, l: int) -> dict[str, Setting]:  # noqa: E741 - the field's own name for it
    settings = _settings(Privacy(k, l), 100, tuples=50)
    names = ("window", "castle", "nearest", "nearest, reuse, jitter 0.25")
    return {f"{name}, k {k}, l {l}": settings[name] for name in names}


def _returning() -> Sample:
    tuples = lasting.returning(of_attributes(adult.stream(), lasting.SIX), 2000, 10, in_rounds=False, moves=False)
    policy = replace(tuples.policy, event_time=None)
    return Sample.of_blocks(policy, replace(tuples, policy=policy).blocks(_BLOCK))


def _of_persons(delay: int) -> dict[str, Setting]:
    """Nearest for each release and over all rows of a person, without and with a jitter."""
    return {
        name + (f", jitter {jitter}" if jitter else ""): Setting(
            NEAREST, Privacy(10, lasting=promise), NearestParameters(delay, delay_jitter=jitter)
        )
        for name, promise in (("nearest", None), ("lasting", Lasting()))
        for jitter in (0.0, JITTER)
    }


def _of_four_shards(delay: int, alpha: float) -> dict[str, Setting]:
    """Return nearest with four shards by subject and by age, each with both kinds of suppression.

    A configuration refuses ``generalize`` where shards divide by age; a ``Setting`` does not.

    Parameters
    ----------
    alpha : of alpha-k-anonymity, so low that tuples are suppressed
    """
    privacy = Privacy(10, 2, ((ALPHA, alpha),))
    return {
        f"by {by}, {parameters.suppression}": Setting(NEAREST, privacy, parameters, Shards(4, by))
        for by in ("subject", "age")
        for parameters in (NearestParameters(delay), NearestParameters(delay, suppression="generalize"))
    }


def _demo_with_domain() -> Sample:
    """Return the demo with a domain of salaries, their range: fully generalized rows need one."""
    sample = _demo()
    salaries = sample.tuples.numeric[:, [of.name for of in sample.policy.numeric].index("salary")]
    domain = (float(salaries.min()), float(salaries.max()))
    attributes = tuple(
        replace(of, domain=domain) if isinstance(of, Numeric) and of.name == "salary" else of
        for of in sample.policy.quasi_identifiers
    )
    return replace(sample, policy=replace(sample.policy, quasi_identifiers=attributes))


TITLES = {
    "adult": "Adult, 10 quasi-identifiers, k 10, l 2, delay 1,000",
    "adult-3": "Adult, 3 quasi-identifiers, delay 100",
    "taxi": "Taxi, k 10, delay 200",
    "demo": "The demo, k 10, l 2, delay 200",
    "returning": "2,000 persons of Adult, ten records each, 6 quasi-identifiers, k 10, delay 1,000",
}
TITLES_WITH_PLACEMENT = {
    "placement-adult": "Adult, 10 quasi-identifiers, nearest, k 10, l 2, alpha 0.8, delay 1,000, four shards",
    "placement-demo": "The demo, nearest, k 10, l 2, alpha 0.4, delay 200, four shards",
}
"""Of the streams that are attacked without and with placement."""
_STREAMS: dict[str, Callable[[], list[tuple[Sample, dict[str, Setting]]]]] = {
    "adult": lambda: [(_adult(), _settings(Privacy(10, 2), 1000, tuples=500))],
    "adult-3": lambda: [(_adult_of_three(2), _paper(10, 2)), (_adult_of_three(3), _paper(20, 3))],
    "taxi": lambda: [(_taxi(), _settings(Privacy(10), 200, tuples=100))],
    "demo": lambda: [(_demo(), _settings(Privacy(10, 2), 200, tuples=100))],
    "returning": lambda: [(_returning(), _of_persons(1000))],
    "placement-adult": lambda: [(_adult(), _of_four_shards(1000, 0.8))],
    "placement-demo": lambda: [(_demo_with_domain(), _of_four_shards(200, 0.4))],
}


@cache
def measured(stream: str) -> list[Measured]:
    """Attacks on each setting of a stream, by its name in ``TITLES`` or ``TITLES_WITH_PLACEMENT``."""
    found = []
    effort = _EFFORT_WITH_PLACEMENT if stream in TITLES_WITH_PLACEMENT else EFFORT
    for sample, settings in _STREAMS[stream]():
        for name, setting in settings.items():
            print(f"{stream}: {name}", file=sys.stderr, flush=True)
            totals = replay(sample, setting)
            loss = 0.0 if totals.mean_loss is None else totals.mean_loss
            attacks = attack_replays(sample, replace(setting, seed=1), effort)
            found.append(Measured(name, setting.privacy.k, attacks, loss, totals.share_suppressed))
    return found


def tables(names: tuple[str, ...] = (*TITLES, *TITLES_WITH_PLACEMENT)) -> Iterator[Table]:
    """Yield two tables of each stream, about identity and about values; with placement one, about what it tells."""
    for name in names:
        runs = measured(name)
        if name in TITLES_WITH_PLACEMENT:
            yield _of_placement(name, runs)
        else:
            yield _of_identity(name, runs)
            yield _of_values(name, runs)


def watchers(runs: list[Measured]) -> list[str]:
    """Return what observers know beside quasi-identifiers, by what was tried; without placements."""
    found = [a.knows for run in runs for a in run.found.attacks if a.name == "linking" and a.knows != ALL]
    return list(dict.fromkeys(knows for knows in found if not knows.startswith(PLACED)))


def _of_placement(name: str, runs: list[Measured]) -> Table:
    """Tabulate attacks with placement, each beside the same attack without."""
    attackers = {
        "": ALL,
        ", placement": PLACED,
        ", exact order": f"{ALL}, exact order",
        ", exact order, placement": f"{PLACED}, exact order",
    }
    header = ["setting", "loss", "suppressed"]
    header += [f"{attack}{known}" for attack in ("re-identified at 1", "linked") for known in attackers]
    header += ["homogeneous, placement", "range of fully generalized rows", "by chance"]
    table = Table(f"{TITLES_WITH_PLACEMENT[name]}: what placement tells, % (bounds)", header)
    for run in runs:
        homogeneity = next(a.name for a in run.found.attacks if a.name.startswith("homogeneity"))
        fully = run.attack("downcoding of fully generalized rows", "nothing of anybody, placement")
        table.add(
            run.name,
            f"{run.loss:.3f}",
            f"{run.suppressed:.1%}",
            *(_told(run.attack("re-identification at 1", knows)) for knows in attackers.values()),
            *(_told(run.attack("linking", knows)) for knows in attackers.values()),
            _told(run.attack(homogeneity, PLACED), bounds=False),
            _told(fully),
            _baseline(fully),
        )
    return table


def _of_identity(name: str, runs: list[Measured]) -> Table:
    known = watchers(runs)
    short = [of.removeprefix(f"{ALL}, ") for of in known]
    header = ["setting", "loss", "suppressed", "re-identified at 1", "at 5", *(f"at 1, {of}" for of in short)]
    header += ["at 1, told the release", "at 5, told the release"]
    header += ["linked", *(f"linked, {of}" for of in short), "linked of rows alone, order to within 50"]
    table = Table(f"{TITLES[name]}: who it is, % (bounds)", [*header, "intersection"])
    for run in runs:
        first = "re-identification at 1"
        alone = run.attack("linking of rows that left alone", f"{ALL}, order to within 50")
        rows = "" if alone is None else f", of {alone.note.split(' ')[0]} rows"
        table.add(
            run.name,
            f"{run.loss:.3f}",
            f"{run.suppressed:.1%}",
            _told(run.attack(first)),
            _told(run.attack("re-identification at 5")),
            *(_told(run.attack(first, of)) for of in known),
            _told(run.attack(first, TOLD)),
            _told(run.attack("re-identification at 5", TOLD)),
            _told(run.attack("linking")),
            *(_told(run.attack("linking", of)) for of in known),
            _told(alone) + rows,
            _told(next((a for a in run.found.attacks if a.name == "intersection"), None)),
        )
    return table


def _of_values(name: str, runs: list[Measured]) -> Table:
    header = ["setting", "disclosed", "commonest", "excess over control", "disclosed, order to within 50"]
    header += ["disclosed, told the release"]
    header += ["homogeneous", "of rows seen leaving", "minimality", "without", "downcoded", "by chance", "count error"]
    table = Table(f"{TITLES[name]}: what somebody's value is, and how fine; %", header)
    for run in runs:
        column = next(a.name for a in run.found.attacks if a.name.startswith("disclosure of")).split(" ")[2]
        among, beside = run.attack(f"disclosure of {column}"), run.attack(f"disclosure of {column}, beside control")
        minimal = run.attack(f"minimality in {column}", f"{ALL}, order, and the seed")
        finer = run.attack("downcoding", "nothing of anybody")
        wrong = run.found.queries
        table.add(
            run.name,
            _told(among),
            _baseline(among),
            "-" if beside is None else beside.note.removeprefix("excess over the control group ").replace("%", ""),
            _told(run.attack(f"disclosure of {column}", f"{ALL}, order to within 50")),
            _told(run.attack(f"disclosure of {column}", TOLD)),
            _told(run.attack(f"homogeneity in {column}"), bounds=False),
            _told(run.attack(f"homogeneity in {column}", f"{ALL}, exact order"), bounds=False),
            _told(minimal),
            _baseline(minimal),
            _told(finer, bounds=False),
            _baseline(finer),
            f"{100 * wrong.error:.1f} ({100 * wrong.low:.1f} to {100 * wrong.high:.1f})",
        )
    return table


def _told(attack: Attack | None, *, bounds: bool = True) -> str:
    if attack is None:
        return "-"
    ends = f" ({100 * attack.low:.1f} to {100 * attack.high:.1f})" if bounds else ""
    text = f"{100 * attack.success:.2g}" if attack.success < 0.0095 else f"{100 * attack.success:.1f}"
    return f"**{text}**{ends}" if attack.above else f"{text}{ends}"


def _baseline(attack: Attack | None) -> str:
    return "-" if attack is None or attack.baseline is None else f"{100 * attack.baseline:.1f}"
