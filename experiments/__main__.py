"""Run experiments: print their tables as Markdown, and draw their figures.

The experiments repeat those of the papers, and compare the algorithms of Crenel with each other. The pages in
docs/research/ present the results. Figures need the extra ``experiments``; without --out none are drawn.
"""

from __future__ import annotations

import argparse
import textwrap
from importlib import import_module
from pathlib import Path

from experiments.harness import (
    ADULT_FILE,
    PIMA_FILE,
    RESULTS,
    TAXI_FILE,
    MissingDataError,
    configure,
    present,
    require,
)

EXPERIMENTS = {
    "castle-loss": ("Loss of CASTLE by k, l, delay and clusters.", "half a minute", "castle.parameters.results"),
    "castle-streams": ("Loss by clusters on five streams.", "2 min", "castle.parameters.streams"),
    "castle-clusters": ("Loss by clusters and recent releases (Figure 4).", "1 min", "castle.losses.clusters"),
    "castle-attributes": ("Loss by attributes and k, beside others (Figure 5).", "3 min", "castle.losses.attributes"),
    "castle-skew": ("Loss by skew of the stream, beside others (Figure 6).", "10 min", "castle.losses.skew"),
    "castle-persons": ("Loss by tuples per person, beside others (Figure 7).", "20 min", "castle.losses.persons"),
    "castle-records": ("Loss by the arrival of a person's tuples.", "30 s", "castle.losses.records"),
    "castle-queries": ("Error of COUNT queries, beside others (Figure 8).", "10 min", "castle.queries.results"),
    "castle-condensation": (
        "Loss and query error beside dynamicGroup (Figures 9, 10).",
        "10 min",
        "castle.queries.condensation",
    ),
    "castle-arrival": ("Re-identification by order of arrival (Theorem 3).", "20 s", "castle.arrival.results"),
    "castleguard-loss": ("Loss of CASTLEGUARD by clusters and noise, on taxi.", "15 s", "castleguard.loss.results"),
    "castleguard-scatter": ("Sampled and perturbed trips (Figure 3).", "10 s", "castleguard.scatter.results"),
    "castleguard-fares": ("Noise on the sensitive number, and its budget.", "10 s", "castleguard.fares.results"),
    "castleguard-quality": ("Classifiers on CASTLEGUARD's releases of Pima.", "3 min", "castleguard.quality.results"),
    "suhdsa-runtime": ("Run time of windows and baselines (Table 2).", "1 min", "suhdsa.tables.results:runtime"),
    "suhdsa-loss": ("Loss in windows of 10 tuples (Table 3).", "1 min", "suhdsa.tables.results:loss"),
    "suhdsa-privacy": ("Releases with l values, and entropy (Table 4).", "1 min", "suhdsa.tables.results:privacy"),
    "suhdsa-l": ("Cost of l = 2, 3 and 5 (Table 5).", "1 min", "suhdsa.tables.results:l"),
    "suhdsa-skew": ("Streams with one common income (Table 6).", "1 min", "suhdsa.tables.results:skew"),
    "suhdsa-stress": ("Skew, bursts and drift (Tables 8 and 9).", "1 min", "suhdsa.tables.results:stress"),
    "suhdsa-controller": ("The repair controller (Table 10).", "1 min", "suhdsa.tables.results:controller"),
    "suhdsa-target": ("The adaptive target (Table 11).", "1 min", "suhdsa.tables.results:target"),
    "suhdsa-window": ("The adaptive window.", "1 min", "suhdsa.tables.results:window"),
    "suhdsa-policies": ("l_t by window and by group, in both directions.", "2 min", "suhdsa.controllers.policies"),
    "suhdsa-delay": ("Windows by the p95 of the delay.", "1 min", "suhdsa.controllers.delays"),
    "suhdsa-latency": ("Time from the end of a window to its releases.", "1 min", "suhdsa.tables.results:latency"),
    "suhdsa-repair-cost": ("Time of a repair relative to grouping.", "1 min", "suhdsa.tables.results:repair-cost"),
    "suhdsa-grid": ("Loss of repair over k and window, with tests.", "2 min", "suhdsa.tables.results:grid"),
    "suhdsa-buffer": ("Loss of SUHDSA by the tuples that a window holds.", "1 min", "suhdsa.tables.results:buffer"),
    "suhdsa-sensitivity": ("Repairs and time of windows (Appendix A).", "2 min", "suhdsa.sensitivity.results"),
    "suhdsa-downstream": ("Downstream tasks, and repairs by sex and race.", "3 min", "suhdsa.downstream.results"),
    "suhdsa-disclosure": ("Readings of attribute disclosure (Table 12).", "5 min", "suhdsa.disclosure.results"),
    "kepsilon-loss": ("Loss with one more attribute (Figure 1).", "1 min", "kepsilon.loss.results"),
    "kepsilon-distribution": ("Errors by kind of noise (Figure 2).", "1 min", "kepsilon.distribution.results"),
    "kepsilon-noise": (
        "Error, linking, suppression (Figures 3 to 6); kept in --out.",
        "20 min",
        "kepsilon.noise.results",
    ),
    "kepsilon-confidence": ("Suppression by confidence, 70 to 99.999 %.", "2 min", "kepsilon.noise.confidences"),
    "kepsilon-speed": ("Run time of generalization and of noise (Figures 7 and 8).", "3 min", "kepsilon.speed.results"),
    "kepsilon-parts": ("Search and program in the speed of OLA.", "2 min", "kepsilon.decomposition.results"),
    "kepsilon-stream": ("Noise within releases on a stream.", "4 min", "kepsilon.stream.results"),
    "kepsilon-causes": ("Causes of differences from the paper.", "1 min", "kepsilon.causes.results"),
    "mondrian": ("Mondrian on Adult by cut, k, l and window.", "1 min", "batch.mondrian"),
    "ola": ("OLA on Adult by k and metric; combinations that its search tests.", "2 min", "batch.ola"),
    "nearest-loss": ("Loss of nearest beside that of CASTLE.", "2 min", "nearest.comparison.losses"),
    "nearest-ends": ("Loss by the grid of published ends.", "1 min", "nearest.comparison.ends"),
    "nearest-missing": ("Loss with missing numbers, kept or rejected.", "1 min", "nearest.comparison.missing"),
    "nearest-rare": ("Nearest with rare sensitive values.", "1 min", "nearest.rare.results"),
    "nearest-attack": ("Guesses of a person's release, with and without a price.", "1 min", "nearest.attack.results"),
    "cells": ("Loss and query error of cells beside nearest and CASTLE.", "5 min", "cells.comparison.results"),
    "cells-safepub": ("Loss and query error of SafePub, at rest.", "3 min", "cells.comparison.at_rest"),
    "cells-audit": ("Membership inference against cells.", "2 min", "cells.audit.results"),
    "cells-agreement": (
        "The accountant of cells beside dp-accounting and OpenDP, from PyPI.",
        "5 min",
        "cells.agreement.results",
    ),
    "privacy-models-occupation": (
        "Cost of each privacy model where no value is common, on Adult.",
        "10 min",
        "privacy_models.results:occupation",
    ),
    "privacy-models-income": (
        "Cost of each privacy model where one value is common, on Adult.",
        "6 min",
        "privacy_models.results:income",
    ),
    "pycanon": ("Privacy models of the core beside those of pycanon, from PyPI.", "10 min", "pycanon_check.results"),
    "minimality": ("Attacks on the formation of classes, on Adult.", "10 min", "minimality.results"),
    "lasting": ("Intersection attacks, and the cost of lasting.", "20 min", "lasting.results"),
    "timing": ("Attackers with timing knowledge, by jitter of the delay.", "1 min", "timing.results"),
    "attacks-adult": ("Attacks on Adult, ten quasi-identifiers.", "3 min", "attacks.results:adult"),
    "attacks-adult-3": ("Attacks on Adult as in the SUHDSA paper.", "3 min", "attacks.results:adult-3"),
    "attacks-taxi": ("Attacks on taxi trips.", "1 min", "attacks.results:taxi"),
    "attacks-demo": ("Attacks on the demo.", "3 min", "attacks.results:demo"),
    "attacks-returning": ("Attacks on persons with several records.", "3 min", "attacks.results:returning"),
    "attacks-placement-adult": ("Attackers who read file names, on Adult.", "3 min", "attacks.results:placement-adult"),
    "attacks-placement-demo": ("Attackers who read file names, on demo.", "3 min", "attacks.results:placement-demo"),
    "shards": ("Loss and throughput by number of shards.", "3 min", "shards.results"),
    "stream": ("The figure of the README, from a run of the demo.", "1 min", "stream_figure.results"),
}
"""A sentence, the time on two cores, and a function below ``experiments`` with its argument, by name.

Modules are imported only for a run, because some import Flink.
"""

_NEEDS = {
    **dict.fromkeys(("castleguard-loss", "castleguard-scatter", "castleguard-fares"), (TAXI_FILE,)),
    "castleguard-quality": (PIMA_FILE,),
    **dict.fromkeys(
        ("castle-streams", "nearest-loss", "nearest-attack", "pycanon"), (ADULT_FILE, TAXI_FILE, PIMA_FILE)
    ),
    **dict.fromkeys(("lasting", "cells", "cells-safepub"), (ADULT_FILE, TAXI_FILE)),
    "attacks-taxi": (TAXI_FILE,),
    **dict.fromkeys(("castle-skew", "attacks-demo", "attacks-placement-demo", "stream", "cells-agreement"), ()),
}
"""Files below ``harness.DATA``, where an experiment needs others than Adult."""


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
    parser.add_argument("--seeds", type=_positive, metavar="N", help="number of seeds; attacks always have five")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write DIR/NAME.md, and draw the figures into DIR")
    parser.add_argument("--update", action="store_true", help="replace the tables of these titles in RESULTS.md")
    given = parser.parse_args()
    chosen: list[str] = []
    for name in given.names:
        found = [name] if name in EXPERIMENTS else [one for one in EXPERIMENTS if one.startswith(f"{name}-")]
        if not found:
            parser.error(f"no such experiment: {name}; --help lists them")
        chosen += found
    configure(given.seeds, given.out)
    for name in chosen:
        path, _, argument = EXPERIMENTS[name][2].partition(":")
        module, _, function = path.rpartition(".")
        try:
            require(name, _NEEDS.get(name, (ADULT_FILE,)))
        except MissingDataError as missing:
            parser.exit(2, f"{missing}\n")
        results = getattr(import_module(f"experiments.{module}"), function)(*([argument] if argument else []))
        present(name, results, RESULTS if given.update else None)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _listing() -> str:
    lines = []
    for name, (summary, duration, _) in EXPERIMENTS.items():
        text = f"{summary} ({duration})"
        lines.append(textwrap.fill(text, 100, initial_indent=f"  {name:<26}", subsequent_indent=" " * 28))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
