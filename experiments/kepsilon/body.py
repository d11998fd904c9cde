"""Heights and weights that are drawn by age and sex, as the paper draws them (Section VI).

Means and percentiles are those of the United States, August 2021 to August 2023: Fryar and others, "Anthropometric
Reference Data for Children and Adults", NCHS, Vital and Health Statistics 3 (50), 2025, Tables 1, 3, 5 and 7. The paper
fits an earlier edition of the same report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

FROM_AGE = (0, 20, 30, 40, 50, 60, 70, 80)
"""The first age of each group; the youngest, which has those of 18 and 19, is used for all below 20."""

HEIGHT = {
    "Male": (
        (175.1, 164.6, 186.0),
        (176.3, 167.7, 185.9),
        (176.1, 166.6, 185.1),
        (176.4, 166.9, 186.8),
        (174.3, 164.7, 183.6),
        (174.7, 165.2, 184.1),
        (172.4, 162.6, 181.6),
        (170.5, 160.1, 179.3),
    ),
    "Female": (
        (161.5, 151.5, 170.0),
        (163.5, 155.1, 171.9),
        (162.5, 152.8, 170.8),
        (161.7, 152.3, 170.4),
        (161.2, 152.6, 170.4),
        (160.5, 151.6, 169.4),
        (158.3, 150.7, 166.2),
        (156.8, 145.9, 165.5),
    ),
}
"""Mean, tenth and ninetieth percentile in centimeters, by sex and age group."""

WEIGHT = {
    "Male": (
        (72.3, 53.9, 103.1),
        (83.7, 60.5, 114.7),
        (87.1, 69.8, 121.0),
        (88.4, 69.7, 125.1),
        (87.8, 68.1, 119.8),
        (86.9, 67.1, 114.0),
        (86.6, 66.2, 111.7),
        (79.9, 63.3, 99.6),
    ),
    "Female": (
        (63.7, 45.4, 99.3),
        (68.9, 52.9, 107.3),
        (75.0, 55.4, 114.6),
        (74.8, 56.0, 111.5),
        (78.5, 57.9, 111.5),
        (74.3, 55.5, 104.5),
        (71.7, 54.6, 96.3),
        (65.7, 50.6, 87.3),
    ),
}
"""Median, tenth and ninetieth percentile in kilograms, by sex and age group."""

STEP = 0.001
"""Step to which both are rounded, so that hardly two people share a value: the paper's are not rounded."""

_TENTH_TO_NINETIETH = 2 * 1.2815515655446004  # standard deviations of a normal distribution


def heights(age: NDArray[np.int64], sex: NDArray[np.object_], random: np.random.Generator) -> NDArray[np.float64]:
    """Return normal heights by age and sex, in centimeters."""
    mean, low, high = _of(HEIGHT, age, sex)
    return _rounded(random.normal(mean, (high - low) / _TENTH_TO_NINETIETH))


def weights(
    age: NDArray[np.int64],
    sex: NDArray[np.object_],
    random: np.random.Generator,
    spread: Callable[[NDArray[np.float64]], NDArray[np.float64]] = np.positive,
) -> NDArray[np.float64]:
    """Log-normal by age and sex, in kilograms; ``spread`` changes the standard deviations of the logarithms."""
    median, low, high = np.log(_of(WEIGHT, age, sex))
    return _rounded(np.exp(random.normal(median, spread((high - low) / _TENTH_TO_NINETIETH))))


def _of(
    table: Mapping[str, Sequence[Sequence[float]]], age: NDArray[np.int64], sex: NDArray[np.object_]
) -> NDArray[np.float64]:
    """(3, people) the figures of each person."""
    group = np.searchsorted(FROM_AGE, age, side="right") - 1
    male, female = np.array(table["Male"]), np.array(table["Female"])
    found: NDArray[np.float64] = np.where((sex == "Male")[:, None], male[group], female[group]).T
    return found


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    rounded: NDArray[np.float64] = np.round(values / STEP) * STEP
    return np.round(rounded, 3)
