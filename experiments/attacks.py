"""Attacks on replays of Adult, taxi, the demo and persons with several records, by algorithm, with and without reuse.

The attacks are those of ``crenel attack`` (``crenel.evidence.attack.replays``), with five seeds.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import adult
from benchmarks.measure import BLOCK
from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Numeric, by_name
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import Shards
from crenel.anonymity.model.privacy import Persons, Privacy
from crenel.evidence.attack.replays import FORMATION_KNOWN, RELEASE_KNOWN, attack_replays
from crenel.evidence.attack.result import ALL, PLACED, Attack, AttackResults, Effort
from crenel.evidence.replay import replay
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.jobs.cli import synthetic
from experiments import lasting
from experiments.harness import REUSE, ROOT, Drawing, Table, drawing, panels, taxi_stream
from experiments.nearest.comparison import JITTER
from experiments.suhdsa import tables as suhdsa

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EFFORT = Effort(targets=300)
_EFFORT_WITH_PLACEMENT = replace(EFFORT, within_rows=(0,), within_time=(), known=(), draws=0)
"""Effort of the tables about placement, without the attacks that placement does not change."""
_MARKERS = "osD^vPX*<>"
_FIRST = "re-identification at 1"


@dataclass(frozen=True)
class Measured:
    """Results of attacks on one setting.

    Attributes
    ----------
    name : of the setting
    k : of the privacy settings
    found : results of the attacks
    loss, suppressed : mean loss of released tuples, share of all that were suppressed, of the first seed
    """

    name: str
    k: int
    found: AttackResults
    loss: float
    suppressed: float

    def attack(self, name: str, knows: str = ALL) -> Attack | None:
        """Return one of the attacks; None where it was not tried."""
        return next((a for a in self.found.attacks if (a.name, a.knows) == (name, knows)), None)


def _adult() -> Sample:
    tuples = adult.stream()
    return Sample.of_blocks(tuples.policy, tuples.blocks(BLOCK))


def _adult_of_three(values: int) -> Sample:
    tuples = suhdsa.plain(0, values)
    return Sample.of_blocks(tuples.policy, tuples.blocks(BLOCK))


def _taxi() -> Sample:
    tuples = taxi_stream()
    return Sample.of_blocks(tuples.policy, tuples.blocks(BLOCK))


def _demo() -> Sample:
    from crenel.jobs.config.load import load
    from crenel.jobs.local.sample import read_beginning  # imports Flink

    with tempfile.TemporaryDirectory(prefix="crenel-attack-") as folder:
        stream = Path(folder) / "stream.csv"
        synthetic.write(stream, 50_000, 1)
        os.environ |= {"CRENEL_DEMO_INPUT": str(stream), "CRENEL_DEMO_OUTPUT": folder}
        configuration = ROOT / "conf" / "demo.yaml"
        return read_beginning(load(configuration), 50_000).sample


def _settings(privacy: Privacy, delay: int, **of_window: Any) -> dict[str, ReplaySetting]:
    """Return each algorithm with this delay: default settings and with reuse; nearest also with a jitter of each."""
    chosen: dict[str, Algorithm] = {
        "castle": Castle(Delay(delay)),
        "castle, reuse": Castle(Delay(delay), reuse_limit=REUSE),
        "nearest": Nearest(Delay(delay)),
        "nearest, jitter 0.25": Nearest(Delay(delay, jitter=JITTER)),
        "nearest, reuse": Nearest(Delay(delay), reuse_limit=REUSE),
        "nearest, reuse, jitter 0.25": Nearest(Delay(delay, jitter=JITTER), reuse_limit=REUSE),
        "window": Suhdsa(delay=Delay(delay), **of_window),
    }
    return {name: ReplaySetting(algorithm, privacy) for name, algorithm in chosen.items()}


def _paper(k: int, l: int) -> dict[str, ReplaySetting]:  # noqa: E741 - the field's own name for it
    settings = _settings(Privacy(k, l), 100, tuples=50)
    names = ("window", "castle", "nearest", "nearest, reuse", "nearest, reuse, jitter 0.25")
    return {f"{name}, k {k}, l {l}": settings[name] for name in names}


def _returning() -> Sample:
    tuples = lasting.returning(adult.stream().of_attributes(lasting.SIX), 2000, 10, in_rounds=False, moves=False)
    policy = replace(tuples.policy, event_time=None)
    return Sample.of_blocks(policy, replace(tuples, policy=policy).blocks(BLOCK))


def _of_persons(delay: int) -> dict[str, ReplaySetting]:
    """Return nearest with each_release and with lasting, without and with a jitter."""
    return {
        name + (f", jitter {jitter}" if jitter else ""): ReplaySetting(
            Nearest(Delay(delay, jitter=jitter)), Privacy(10, persons=model)
        )
        for name, model in (("nearest", None), ("lasting", Persons("lasting")))
        for jitter in (0.0, JITTER)
    }


def _of_four_shards(delay: int, alpha: float) -> dict[str, ReplaySetting]:
    """Return nearest with four shards by subject and by age, each with both kinds of suppression.

    A configuration refuses ``generalize`` where shards divide by age; a ``ReplaySetting`` does not.

    Parameters
    ----------
    alpha : of alpha-k-anonymity, so low that tuples are suppressed
    """
    privacy = Privacy(10, 2, models={"alpha": alpha})
    return {
        f"by {by}, {algorithm.suppression}": ReplaySetting(algorithm, privacy, Shards(4, by))
        for by in ("subject", "age")
        for algorithm in (Nearest(Delay(delay)), Nearest(Delay(delay), suppression="generalize"))
    }


def _demo_with_domain() -> Sample:
    """Return the demo with a domain of salaries, their range: fully generalized rows need one."""
    sample = _demo()
    salaries = sample.tuples.numeric[:, [of.name for of in sample.policy.numeric].index("salary")]
    domain = (float(salaries.min()), float(salaries.max()))
    attributes = tuple(
        replace(of, domain=domain) if isinstance(of, Numeric) and of.name == "salary" else of
        for of in sample.policy.attributes
    )
    return replace(sample, policy=replace(sample.policy, quasi_identifiers=by_name(attributes)))


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
"""Titles of the streams that are attacked without and with placement."""
_STREAMS: dict[str, Callable[[], list[tuple[Sample, dict[str, ReplaySetting]]]]] = {
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
    """Return the attacks on each setting of a stream, by its name in ``TITLES`` or ``TITLES_WITH_PLACEMENT``."""
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


def results(name: str) -> Iterator[Table | Drawing]:
    """Yield the tables and the figure of a stream; with placement one table."""
    if name in TITLES_WITH_PLACEMENT:
        yield _of_placement(name, measured(name))
    else:
        yield _of_identity(name, measured(name))
        yield _of_values(name, measured(name))
        yield drawing(f"attack-{name}", _figure, name)


def further_knowledge(runs: list[Measured]) -> list[str]:
    """Return the further knowledge of attackers in these runs, without placements."""
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
    table = Table(f"{TITLES_WITH_PLACEMENT[name]}: attackers with placement, % (95 % confidence interval)", header)
    for run in runs:
        homogeneity = next(a.name for a in run.found.attacks if a.name.startswith("homogeneity"))
        fully = run.attack("downcoding of fully generalized rows", "placement, no values")
        table.add(
            run.name,
            f"{run.loss:.3f}",
            f"{run.suppressed:.1%}",
            *(_percent(run.attack("re-identification at 1", knows)) for knows in attackers.values()),
            *(_percent(run.attack("linking", knows)) for knows in attackers.values()),
            _percent(run.attack(homogeneity, PLACED), bounds=False),
            _percent(fully),
            _baseline(fully),
        )
    return table


def _of_identity(name: str, runs: list[Measured]) -> Table:
    known = further_knowledge(runs)
    short = [of.removeprefix(f"{ALL}, ") for of in known]
    header = ["setting", "loss", "suppressed", "re-identified at 1", "at 5", *(f"at 1, {of}" for of in short)]
    header += ["at 1, the release", "at 5, the release"]
    header += ["linked", *(f"linked, {of}" for of in short), "linked of singleton releases, order to within 50"]
    table = Table(f"{TITLES[name]}: identity, % (95 % confidence interval)", [*header, "intersection"])
    for run in runs:
        first = "re-identification at 1"
        alone = run.attack("linking of rows in small releases", f"{ALL}, order to within 50")
        rows = "" if alone is None else f", of {alone.note.split(' ')[0]} rows"
        table.add(
            run.name,
            f"{run.loss:.3f}",
            f"{run.suppressed:.1%}",
            _percent(run.attack(first)),
            _percent(run.attack("re-identification at 5")),
            *(_percent(run.attack(first, of)) for of in known),
            _percent(run.attack(first, RELEASE_KNOWN)),
            _percent(run.attack("re-identification at 5", RELEASE_KNOWN)),
            _percent(run.attack("linking")),
            *(_percent(run.attack("linking", of)) for of in known),
            _percent(alone) + rows,
            _percent(next((a for a in run.found.attacks if a.name == "intersection"), None)),
        )
    return table


def _of_values(name: str, runs: list[Measured]) -> Table:
    header = ["setting", "disclosed", "commonest", "excess over control", "disclosed, order to within 50"]
    header += ["disclosed, the release"]
    header += ["homogeneous", "exact order", "minimality", "baseline", "downcoded", "by chance", "count error"]
    table = Table(f"{TITLES[name]}: sensitive values and precision, %", header)
    for run in runs:
        column = next(a.name for a in run.found.attacks if a.name.startswith("disclosure of")).split(" ")[2]
        among, beside = run.attack(f"disclosure of {column}"), run.attack(f"disclosure of {column}, beside control")
        minimal = run.attack(f"minimality in {column}, rare value at 1", FORMATION_KNOWN)
        finer = run.attack("downcoding", "no values")
        wrong = run.found.queries
        table.add(
            run.name,
            _percent(among),
            _baseline(among),
            "-" if beside is None else beside.note.removeprefix("excess over the control group ").replace("%", ""),
            _percent(run.attack(f"disclosure of {column}", f"{ALL}, order to within 50")),
            _percent(run.attack(f"disclosure of {column}", RELEASE_KNOWN)),
            _percent(run.attack(f"homogeneity in {column}"), bounds=False),
            _percent(run.attack(f"homogeneity in {column}", f"{ALL}, exact order"), bounds=False),
            _percent(minimal),
            _baseline(minimal),
            _percent(finer, bounds=False),
            _baseline(finer),
            f"{100 * wrong.error:.1f} ({100 * wrong.low:.1f} to {100 * wrong.high:.1f})",
        )
    return table


def _percent(attack: Attack | None, *, bounds: bool = True) -> str:
    if attack is None:
        return "-"
    ends = f" ({100 * attack.low:.1f} to {100 * attack.high:.1f})" if bounds else ""
    text = f"{100 * attack.success:.2g}" if attack.success < 0.0095 else f"{100 * attack.success:.1f}"
    return f"**{text}**{ends}" if attack.above else f"{text}{ends}"


def _baseline(attack: Attack | None) -> str:
    return "-" if attack is None or attack.baseline is None else f"{100 * attack.baseline:.1f}"


def _figure(stream: str) -> Figure:
    """Return re-identification by knowledge, and disclosure beside guessing and a control group."""
    name, runs = TITLES[stream], measured(stream)
    from matplotlib.ticker import PercentFormatter

    figure, grid = panels(1, 2, (10, 4.2), width_ratios=(3, 2))
    left, right = grid[0]
    known = [
        *dict.fromkeys(a.knows for run in runs for a in run.found.attacks if a.name == _FIRST and " of " in a.knows)
    ]
    known += [ALL, *reversed(further_knowledge(runs)), RELEASE_KNOWN]
    for i, run in enumerate(runs):
        found = [(j, run.attack(_FIRST, of)) for j, of in enumerate(known)]
        _points(left, [(j + 0.09 * (i - len(runs) / 2), of) for j, of in found if of is not None], f"C{i}", run.name)
    for k in dict.fromkeys(run.k for run in runs):
        left.axhline(1 / k, color="black", linewidth=0.8, linestyle=":")
        left.annotate(f"1 / k, k {k}", (-0.6, 1 / k), fontsize=7, va="bottom", ha="left")
    left.set_xticks(range(len(known)), map(_label, known))
    left.set_ylabel("re-identified at 1")
    most = max(attack.high for run in runs for attack in run.found.attacks if attack.name == _FIRST)
    left.set_ylim(0, min(1.2 * most, 1))
    left.set_yscale("function", functions=(lambda x: abs(x) ** 0.5, lambda x: x**2))
    left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    left.legend(fontsize=7, frameon=False, loc="upper left")
    for i, run in enumerate(runs):
        among = next(a for a in run.found.attacks if a.name.startswith("disclosure of"))
        beside = next(a for a in run.found.attacks if a.name.endswith("beside control"))
        _points(right, [(i, among)], f"C{i}", "")
        for baseline, marker, label in (
            (among.baseline, "_", "the commonest value"),
            (beside.baseline, "x", "control group"),
        ):
            right.plot([i], [baseline], marker, color="black", markersize=8, label=label if i == 0 else None)
    right.set_xticks(range(len(runs)), [run.name for run in runs], rotation=40, ha="right")
    right.set_ylabel("disclosed")
    right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    right.legend(fontsize=7, frameon=False)
    figure.suptitle(name)
    return figure


def _label(knows: str) -> str:
    """Return the knowledge of an attacker in two or three lines."""
    text = "the\nrelease" if knows == RELEASE_KNOWN else knows.removeprefix(f"{ALL}, ").replace(ALL, "all of them")
    for words in ("of them", "within", "order"):
        text = text.replace(f" {words}", f"\n{words}")
    return text.replace("within ", "within\n")


def _points(panel: Any, found: list[tuple[float, Attack]], color: str, label: str) -> None:
    success = [attack.success for _, attack in found]
    error = [
        [max(attack.success - attack.low, 0) for _, attack in found],
        [max(attack.high - attack.success, 0) for _, attack in found],
    ]
    positions = [place for place, _ in found]
    panel.errorbar(
        positions,
        success,
        error,
        fmt=_MARKERS[int(color[1:])],
        markersize=4,
        color=color,
        label=label,
        capsize=2,
        linewidth=1,
    )
