"""Implementation of ``crenel budget``: privacy figures of a configuration's sampling and noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import ceil, floor, inf, log, log10
from operator import attrgetter
from typing import Any

from rich.console import Console

from crenel.anonymity.algorithm import algorithms_with
from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.privacy import NoiseWithinRelease
from crenel.anonymity.noise.budget import log_delta
from crenel.evidence.budget import SHARES, Budget, Reach, reaches_within
from crenel.jobs.cli.cli_common import indent, table
from crenel.jobs.config.load import Config

_GRID = "An integer column has the step 1; another column needs a configured step."
_ASSUMED = (
    "Both are per tuple, and assume a generalization that does not depend on the data. That of every algorithm here "
    "does; noise compensates for that without a proof. See docs/privacy/proofs.md before you sign."
)


class NothingToAccountError(InputError):
    """Error for a configuration without sampling and noise."""

    lead = " "

    def __init__(self) -> None:
        private = algorithms_with(attrgetter("private"))
        super().__init__(
            f"has neither sampling_and_noise nor privacy.noise_within_release nor {private}, so there is nothing to "
            "account for"
        )


def show_account(figures: Mapping[str, float], console: Console) -> None:
    """Print the figures of a private algorithm (``Algorithm.account``) as a table."""
    console.print("differential privacy of each person", style="bold")
    rows = table("figure", "value")
    for name, figure in account_in_short(figures):
        rows.add_row(name, figure)
    indent(console, rows)
    indent(console, "See docs/privacy/proofs.md for the theorem and its assumptions.", below=1)


def account_in_short(figures: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Yield the figures of a private algorithm as ``crenel check`` shows them."""
    for name, figure in figures.items():
        yield name.replace("_", " "), f"{figure:.6g}"


def budget_in_short(budget: Budget) -> Iterator[tuple[str, str]]:
    """Yield the figures that ``crenel check`` shows."""
    yield "sample_rate", f"{budget.sample_rate:.12g} of all tuples are admitted"
    yield "epsilon, delta", "none is guaranteed" if budget.smallest == inf else f"{_least(budget)}; {_floor(budget)}"
    yield "phi", f"{budget.phi:.6g}: the scale is the {'observed' if budget.observed_range else 'declared'} range / phi"
    for reach in budget.reaches:
        yield "noise", f"{reach.name}: {in_words(reach)}"


def show_budget(budget: Budget, console: Console) -> None:
    """Print the figures of sampling and noise as tables."""
    console.print(f"sample_rate {budget.sample_rate:.12g} and k {budget.k}", style="bold")
    if budget.smallest == inf:
        console.print("  Every tuple is admitted: no epsilon is guaranteed.\n")
    else:
        deltas = table("epsilon", "delta")
        for epsilon, delta in budget.deltas:
            shown = _up(log(epsilon), 4) if epsilon == budget.smallest else f"{epsilon:g}"
            deltas.add_row(shown, "none: too small" if delta is None else _up(delta))
        indent(console, deltas)
        indent(console, f"The smallest epsilon is {_least(budget).split(',')[0]}: -ln(1 - sample_rate).")
        indent(console, f"{_floor(budget).capitalize()}: sample_rate^k.")
        indent(console, _ASSUMED, below=1)
    if budget.wanted is not None:
        epsilon, most, rate = budget.wanted
        console.print(f"epsilon {epsilon:g} and delta {most:g} with k {budget.k}", style="bold")
        largest = "no sample_rate gives them" if rate is None else f"the largest sample_rate is {_decimal(rate)}"
        indent(console, f"{largest[0].upper()}{largest[1:]}.", below=1)
    console.print(f"noise with phi {budget.phi:.6g}", style="bold")
    shares = (f"{100 * share:.3g} %" for share in SHARES)
    noise = table("attribute", "unit", "range", "step", "scale", *shares, words=2)
    for reach in budget.reaches:
        noise.add_row(
            reach.name,
            reach.unit,
            "observed" if reach.range is None else f"{reach.range:.6g}",
            "1" if reach.step is None else f"{reach.step:.6g}",
            f"{reach.scale:.6g}",
            *(f"{amount:.6g}" for amount in reach.within),
        )
    indent(console, noise)
    indent(console, "The scale is range / phi. Noise moves this share of tuples by so much or less.")
    if budget.assumed_step:
        indent(console, _GRID)


def within_as_json(config: Config) -> list[dict[str, Any]]:
    """Return the displacements for ``--json``."""
    noise = config.privacy.noise_within_release
    return [
        {
            "attribute": reach.name,
            "class": reach.width_name,
            "width": reach.width,
            "scale": reach.scale,
            "linking_range": reach.linking_range,
            "within": {f"{share:g}": amount for share, amount in zip(SHARES, reach.within, strict=True)},
        }
        for reach in (() if noise is None else reaches_within(config.policy, noise))
    ]


def show_within(config: Config, console: Console) -> None:
    """Print the displacements as a table, if any attribute is noised."""
    noise = config.privacy.noise_within_release
    if noise is None:
        return
    console.print(f"noise within releases, epsilon {noise.epsilon:g} for a record", style="bold")
    shares = (f"{100 * share:.3g} %" for share in SHARES)
    displacements = table("attribute", "of its domain", "width", "scale", "linking range", *shares, words=2)
    for reach in reaches_within(config.policy, noise):
        near = "-" if reach.linking_range is None else f"{reach.linking_range:.6g}"
        moved = (f"{amount:.6g}" for amount in reach.within)
        displacements.add_row(reach.name, reach.width_name, f"{reach.width:.6g}", f"{reach.scale:.6g}", near, *moved)
    indent(console, displacements)
    indent(console, "The scale is width / (epsilon * share). Noise moves this share of values by so much or less.")
    indent(console, "".join(_limits(noise, sampled=config.sampling_and_noise is not None)))


def _limits(noise: NoiseWithinRelease, *, sampled: bool) -> Iterator[str]:
    """Yield what the noise within releases guarantees."""
    if noise.scale != "domain":
        yield "This is not differential privacy: the width depends on values of persons. "
    elif noise.confidence is not None:
        yield "This is not differential privacy: which values are published depends on values of other persons. "
    else:
        yield (
            f"Each record's noised values have {noise.epsilon:g}-differential privacy: the Laplace mechanism on "
            "declared domains. Its other columns do not. "
        )
        if sampled:
            yield f"Beside sampling, these values add {noise.epsilon:g} to each epsilon above. "
    yield "See docs/privacy/proofs.md."


def in_words(reach: Reach) -> str:
    """Return the scale and the grid, and the maximum displacement of most tuples."""
    unit = "" if reach.unit == "own" else f" {reach.unit}"
    grid = f", in steps of {reach.step:.6g}" if reach.unit != "leaves" and reach.step is not None else ""
    return f"scale {reach.scale:.6g}{unit}{grid}; 95 % move by {reach.within[SHARES.index(0.95)]:.6g}{unit} or less"


def _least(budget: Budget) -> str:
    return f"{_up(log(budget.smallest), 4)}, {_up(log_delta(budget.k, budget.sample_rate, budget.smallest))}"


def _floor(budget: Budget) -> str:
    return f"no epsilon brings delta below {_down(budget.k * log(budget.sample_rate))}"


def _up(logarithm: float, digits: int = 3) -> str:
    """Format a number by its natural logarithm, rounded up so that no guarantee is overstated."""
    return _rounded(logarithm, digits, lambda number: ceil(number * (1 - 1e-12)))


def _down(logarithm: float, digits: int = 3) -> str:
    return _rounded(logarithm, digits, lambda number: floor(number * (1 + 1e-12)))


def _rounded(logarithm: float, digits: int, towards: Callable[[float], int]) -> str:
    power = floor(logarithm / log(10)) - digits + 1
    number = towards(10 ** (logarithm / log(10) - power))
    if number == 10**digits:
        number, power = number // 10, power + 1
    if -digits - 4 < power <= 0:
        return f"{number / 10**-power:.{-power}f}".rstrip("0").rstrip(".") if power else str(number)
    return f"{number / 10 ** (digits - 1):g}e{power + digits - 1:+03d}"


def _decimal(rate: float) -> str:
    return f"{rate:.{max(6, 6 - floor(log10(rate)))}f}".rstrip("0")
