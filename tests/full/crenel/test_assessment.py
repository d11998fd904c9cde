"""Figures of attacks and budgets."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import crenel
import crenel.evidence.figures
from tests.crenel.stream import records, settings


def test_figures_are_matplotlib_objects_without_pyplot() -> None:
    sampled = replace(
        settings("castle"), sampling_and_noise=crenel.SamplingAndNoise(sample_rate=0.5, phi=10), shards=crenel.Shards(1)
    )
    figures = crenel.budget(sampled, epsilons=[0.1, 1.0])
    assert figures.to_arrow()["delta"].null_count == 1  # 0.1 is below the smallest epsilon
    (axes,) = figures.figure().axes
    assert axes.get_title() == "sample_rate 0.5, k 4"
    found = crenel.attack(records(800), settings(), seeds=1, targets=50)
    (axes,) = found.figure().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"{a.name} ({a.knows})" for a in found.attacks]
    loaded = subprocess.run(
        [sys.executable, "-c", FIGURE], capture_output=True, text=True, check=True, timeout=100
    ).stdout.split()
    assert loaded == ["Figure", "False"]


FIGURE = """
import sys
from crenel.evidence.figures import budget_figure
print(type(budget_figure(10, 0.5)).__name__, "matplotlib.pyplot" in sys.modules)
"""
