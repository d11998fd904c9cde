"""Agreement of the accountant of ``cells`` with dp-accounting and OpenDP, independent libraries.

Both are installed from PyPI in a virtual environment of their own, where ``accountants.py`` computes their figures.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crenel.anonymity.noise.composition import composed_delta, delta_of_parameters, delta_over_horizon, least_k
from crenel.anonymity.noise.selection import NoisyCounts, noisy_counts, threshold_for
from experiments.harness import Table, installed

DP_ACCOUNTING, OPENDP = "dp-accounting==0.6.0", "opendp==0.16.0"
DELTA = 1e-6

_SAMPLED = ((0.2, 0.5, 1), (0.2, 1.0, 1), (0.5, 1.0, 1), (0.1, 1.0, 4), (0.2, 4.0, 4), (0.05, 4.0, 30))
"""Sample rate, epsilon and number of windows."""

_NOISY = ((1.0, 1), (4.0, 4), (4.0, 30), (4.0, 365))
"""Epsilon and number of windows."""

_THRESHOLDS = tuple((epsilon, delta) for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0) for delta in (1e-6, 1e-9))
"""Epsilon and delta of one window."""

_MEASURED = (1.0, 3)
_RUNS = 10_000


def results() -> Iterator[Table]:
    """Tabulate the figures of Crenel beside those of the libraries."""
    with tempfile.TemporaryDirectory() as folder:
        python = installed(Path(folder), DP_ACCOUNTING, OPENDP)
        yield _composition(python)
        yield _thresholds(python)
        yield _published(python)


def answered(python: Path, questions: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Return the libraries' answers to calls of functions of ``accountants.py``, each a name with arguments."""
    script = Path(__file__).with_name("accountants.py")
    done = subprocess.run([python, script], input=json.dumps(questions), capture_output=True, text=True, check=True)
    return iter(json.loads(done.stdout))


def _composition(python: Path) -> Table:
    table = Table(
        f"Delta over windows: Crenel and {DP_ACCOUNTING} (delta 1e-06 is wanted)",
        [
            *("release", "sample_rate", "epsilon", "windows", "epsilon of a window", "k or threshold"),
            *("Crenel", "Crenel, composition", "dp-accounting, composition", "dp-accounting, counts"),
            "dp-accounting, least k",
        ],
    )
    rows: list[tuple[Any, ...]] = []
    questions: list[tuple[Any, ...]] = []
    for rate, epsilon, windows in _SAMPLED:
        k = least_k(rate, epsilon, DELTA, windows)
        assert k is not None
        by_parameters, one = delta_of_parameters(k, rate, epsilon, windows)
        of_window = delta_over_horizon(k, rate, one, 1)
        total = delta_over_horizon(k, rate, epsilon, windows)
        rows.append(("sampled", f"{rate:g}", epsilon, windows, one, k, total, by_parameters))
        questions += [("composed", epsilon, windows, one, of_window), ("by_samples", epsilon, windows, k, rate)]
        questions.append(("least_k", epsilon, windows, DELTA, k + 1, rate))
    for epsilon, windows in _NOISY:
        counts = noisy_counts(1, epsilon, DELTA, windows)
        total = composed_delta(epsilon, windows, counts.epsilon, counts.delta)
        rows.append(("noisy", "-", epsilon, windows, counts.epsilon, counts.threshold, total, total))
        questions.append(("composed", epsilon, windows, counts.epsilon, counts.delta))
        questions.append(("by_noise", epsilon, windows, counts.epsilon, counts.threshold))
    answers = answered(python, questions)
    for release, rate_shown, epsilon, windows, one, number, total, by_parameters in rows:
        composition, of_counts = f"{next(answers):.12e}", f"{next(answers):.3e}"
        least = next(answers) if release == "sampled" else "-"
        deltas = f"{total:.12e}", f"{by_parameters:.12e}", composition, of_counts
        table.add(release, rate_shown, f"{epsilon:g}", windows, f"{one:.6g}", number, *deltas, least)
    return table


def _thresholds(python: Path) -> Table:
    table = Table(
        f"Thresholds of one window: Crenel and {OPENDP}",
        [
            *("epsilon", "delta", "threshold", "OpenDP's least", "delta of the threshold"),
            *("OpenDP's, of one less", "OpenDP's, of the same"),
        ],
    )
    thresholds = [threshold_for(epsilon, delta) for epsilon, delta in _THRESHOLDS]
    answers = answered(
        python,
        [
            ("opendp_thresholds", *setting, [threshold - 1, threshold])
            for setting, threshold in zip(_THRESHOLDS, thresholds, strict=True)
        ],
    )
    for (epsilon, delta), threshold in zip(_THRESHOLDS, thresholds, strict=True):
        one_less, same, least = next(answers)
        shown = (f"{each:.9e}" for each in (_delta(epsilon, threshold), one_less, same))
        table.add(f"{epsilon:g}", f"{delta:g}", threshold, int(least), *shown)
    return table


def _published(python: Path) -> Table:
    epsilon, threshold = _MEASURED
    share, (delta, _) = answered(
        python,
        [("opendp_share", epsilon, threshold, _RUNS), ("opendp_thresholds", epsilon, DELTA, [threshold])],
    )
    table = Table(
        f"A key of one person in {_RUNS:,} runs of {OPENDP} (epsilon {epsilon:g}, threshold {threshold})",
        ["share published", "OpenDP's delta", "Crenel's delta"],
    )
    table.add(f"{share:.4f}", f"{delta:.4f}", f"{_delta(epsilon, threshold):.4f}")
    return table


def _delta(epsilon: float, threshold: int) -> float:
    denominator = 10**6
    return NoisyCounts(round(denominator / epsilon), denominator, threshold).delta
