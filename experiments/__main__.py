"""Run experiments: print their tables as Markdown, and draw their figures.

The experiments repeat those of the papers, and compare the algorithms of Crenel with each other. docs/experiments.md
presents the results. Figures need the extra ``experiments``; without --out none are drawn.
"""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from experiments.harness import ADULT_FILE, PIMA_FILE, TAXI_FILE, MissingDataError, configure, present, require

_ALL = (ADULT_FILE, TAXI_FILE, PIMA_FILE)


@dataclass(frozen=True)
class Experiment:
    """An entry of ``python -m experiments --help``.

    Attributes
    ----------
    summary : a sentence
    duration : on two cores, with all seeds
    function : below ``experiments``, with its module, which is imported only for a run; yields tables and figures
    given : its arguments
    needs : files below ``harness.DATA``
    """

    summary: str
    duration: str
    function: str
    given: tuple[str, ...] = ()
    needs: tuple[str, ...] = (ADULT_FILE,)


EXPERIMENTS = {
    "castle": Experiment("Loss of CASTLE by k, l, delay and clusters on Adult.", "half a minute", "castle.results"),
    "castleguard-loss": Experiment(
        "Loss of CASTLEGUARD by clusters, sample rate and noise on taxi trips.",
        "15 s",
        "castleguard.loss.results",
        needs=(TAXI_FILE,),
    ),
    "castleguard-quality": Experiment(
        "Accuracy of classifiers trained on CASTLEGUARD's releases of Pima.",
        "1 min",
        "castleguard.quality.results",
        needs=(PIMA_FILE,),
    ),
    "suhdsa-runtime": Experiment(
        "Run time of windows and their baselines (Table 2).", "1 min", "suhdsa.tables.results", ("runtime",)
    ),
    "suhdsa-loss": Experiment("Loss in windows of 10 tuples (Table 3).", "1 min", "suhdsa.tables.results", ("loss",)),
    "suhdsa-privacy": Experiment(
        "Releases with l values, and their entropy (Table 4).", "1 min", "suhdsa.tables.results", ("privacy",)
    ),
    "suhdsa-l": Experiment("Cost of l = 2, 3 and 5 (Table 5).", "1 min", "suhdsa.tables.results", ("l",)),
    "suhdsa-skew": Experiment("Streams with one common income (Table 6).", "1 min", "suhdsa.tables.results", ("skew",)),
    "suhdsa-stress": Experiment(
        "Skew, bursts and drift (Tables 8 and 9).", "1 min", "suhdsa.tables.results", ("stress",)
    ),
    "suhdsa-controller": Experiment(
        "The repair controller (Table 10).", "1 min", "suhdsa.tables.results", ("controller",)
    ),
    "suhdsa-target": Experiment("The adaptive target (Table 11).", "1 min", "suhdsa.tables.results", ("target",)),
    "suhdsa-window": Experiment("The adaptive window.", "1 min", "suhdsa.tables.results", ("window",)),
    "suhdsa-latency": Experiment(
        "Time from the end of a window to its releases.", "1 min", "suhdsa.tables.results", ("latency",)
    ),
    "suhdsa-repair-cost": Experiment(
        "Time of a repair relative to grouping.", "1 min", "suhdsa.tables.results", ("repair-cost",)
    ),
    "kepsilon-loss": Experiment("Loss with one more attribute (Figure 1).", "1 min", "kepsilon.loss.results"),
    "kepsilon-distribution": Experiment(
        "Distribution of errors by kind of noise (Figure 2).", "1 min", "kepsilon.distribution.results"
    ),
    "kepsilon-noise": Experiment(
        "Error, linking risk and suppression by k and epsilon (Figures 3 to 6); --out keeps finished parts.",
        "20 min",
        "kepsilon.noise.results",
    ),
    "kepsilon-speed": Experiment(
        "Run time with generalization and with noise (Figures 7 and 8).", "3 min", "kepsilon.speed.results"
    ),
    "kepsilon-stream": Experiment("Noise within releases on a stream.", "4 min", "kepsilon.stream.results"),
    "kepsilon-causes": Experiment("Causes of differences from the paper.", "1 min", "kepsilon.causes.results"),
    "mondrian": Experiment("Mondrian on Adult by cut, k, l, window.", "1 min", "batch.mondrian"),
    "ola": Experiment("OLA on Adult by k and metric.", "10 s", "batch.ola"),
    "nearest-loss": Experiment(
        "Loss of nearest beside that of CASTLE, on all data sets.",
        "2 min",
        "nearest.comparison.losses",
        needs=_ALL,
    ),
    "nearest-ends": Experiment("Loss by the grid of published ends.", "1 min", "nearest.comparison.ends"),
    "nearest-rules": Experiment("Nearest by alternative rules.", "10 min", "nearest.rules.results", needs=_ALL),
    "privacy-models": Experiment(
        "Cost of each privacy model for sensitive values on Adult.", "10 min", "privacy_models.results"
    ),
    "pycanon": Experiment(
        "Privacy models of the core beside those of pycanon, from PyPI.", "10 min", "pycanon_check.results", needs=_ALL
    ),
    "lasting": Experiment(
        "Intersection attacks on persons with several records, and the cost of lasting.",
        "20 min",
        "lasting.results",
        needs=(ADULT_FILE, TAXI_FILE),
    ),
    "timing": Experiment("Attackers with timing knowledge, by jitter of the delay.", "5 min", "timing.results"),
    "attacks-adult": Experiment("Attacks on Adult, ten quasi-identifiers.", "3 min", "attacks.results", ("adult",)),
    "attacks-adult-3": Experiment(
        "Attacks on Adult, as in the SUHDSA paper.", "3 min", "attacks.results", ("adult-3",)
    ),
    "attacks-taxi": Experiment("Attacks on taxi trips.", "1 min", "attacks.results", ("taxi",), needs=(TAXI_FILE,)),
    "attacks-demo": Experiment("Attacks on the demo.", "3 min", "attacks.results", ("demo",), needs=()),
    "attacks-returning": Experiment(
        "Attacks on persons with several records.", "3 min", "attacks.results", ("returning",)
    ),
    "attacks-placement-adult": Experiment(
        "Attackers who read file names and row order, on Adult.", "3 min", "attacks.results", ("placement-adult",)
    ),
    "attacks-placement-demo": Experiment(
        "Attackers who read file names and row order, on the demo.",
        "3 min",
        "attacks.results",
        ("placement-demo",),
        needs=(),
    ),
    "shards": Experiment("Loss and throughput by number of shards.", "2 min", "shards.results"),
    "stream": Experiment(
        "The figure of the README, from a run of the demo.", "1 min", "stream_figure.results", needs=()
    ),
}


def main() -> None:
    """Run the named experiments."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description=__doc__,
        epilog="experiments, with their time on two cores (run one alone: run times count):\n" + _listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="an experiment, or the first part of several names: kepsilon, attacks"
    )
    parser.add_argument("--seeds", type=_positive, metavar="N", help="number of seeds; each experiment has a default")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write DIR/NAME.md, and draw the figures into DIR")
    given = parser.parse_args()
    chosen: dict[str, Experiment] = {}
    for name in given.names:
        found = {one: each for one, each in EXPERIMENTS.items() if one == name or one.startswith(f"{name}-")}
        if not found:
            parser.error(f"no such experiment: {name}; --help lists them")
        chosen |= {name: found[name]} if name in found else found
    configure(given.seeds, given.out)
    for name, experiment in chosen.items():
        module, _, function = experiment.function.rpartition(".")
        try:
            require(name, experiment.needs)
        except MissingDataError as missing:
            parser.exit(2, f"{missing}\n")
        present(name, getattr(import_module(f"experiments.{module}"), function)(*experiment.given))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _listing() -> str:
    lines = []
    for name, experiment in EXPERIMENTS.items():
        text = f"{experiment.summary} ({experiment.duration})"
        lines.append(textwrap.fill(text, 100, initial_indent=f"  {name:<24}", subsequent_indent=" " * 26))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
