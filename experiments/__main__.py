"""Run experiments: print their tables as Markdown, and draw their figures.

The experiments repeat those of the papers, and compare the algorithms of Crenel with each other. The pages in
docs/research/ present the results. Figures need the extra ``experiments``; without --out none are drawn.
"""

from __future__ import annotations

import argparse
import textwrap
from importlib import import_module
from pathlib import Path

from experiments import castle, castleguard, kepsilon, suhdsa
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
    **castle.EXPERIMENTS,
    **castleguard.EXPERIMENTS,
    **suhdsa.EXPERIMENTS,
    **kepsilon.EXPERIMENTS,
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

The folder of a paper lists its own.

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
