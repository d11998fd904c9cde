"""Implementation of ``crenel budget``: privacy figures of a configuration's sampling and noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, log, log10
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import InputError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import SamplingAndNoise
from crenel.anonymity.noise.budget import Noise, delta, largest_sample_rate, log_delta, share_within, smallest_epsilon
from crenel.jobs.config.load import Config

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
"""Epsilons to show by default, as far as a sample rate can reach them."""

SHARES = (0.5, 0.95, 0.99)
"""Shares of tuples for which the maximum displacement by noise is shown."""

_WORDS = ("attribute", "unit", "of its domain")
_GRID = "1 is the step of a column of whole numbers; another column must be given one."
_ASSUMED = (
    "Both are per tuple, and rest on a generalization that does not depend on the data, which that of every algorithm "
    "here does; noise stands in for that and proves nothing. See docs/privacy.md before you sign."
)


class NothingToAccountError(InputError):
    """Error for a configuration without sampling and noise."""

    lead = " "

    def __init__(self) -> None:
        super().__init__("has neither sampling_and_noise nor noise_within_release, so there is nothing to account for")


@dataclass(frozen=True)
class Reach:
    """Displacement of one attribute by noise.

    Attributes
    ----------
    name, kind : of the attribute
    unit : of range, step, scale and distances: ``own``, ``leaves`` of the hierarchy, or ``% of range`` for the observed
        range
    range : from the lowest to the highest value; None: observed
    step : of the grid; None: not known yet
    scale : of the Laplace distribution, range / phi
    within : for each of ``SHARES``, the maximum distance by which this share of tuples is moved
    """

    name: str
    kind: str
    unit: str
    range: float | None
    step: float | None
    scale: float
    within: tuple[float, ...]

    def in_words(self) -> str:
        """Return the scale and the grid, and the maximum displacement of most tuples."""
        unit = "" if self.unit == "own" else f" {self.unit}"
        grid = f", in steps of {self.step:.6g}" if self.unit != "leaves" and self.step is not None else ""
        return f"scale {self.scale:.6g}{unit}{grid}; 95 % move by {self.within[SHARES.index(0.95)]:.6g}{unit} or less"


@dataclass(frozen=True)
class Budget:
    """The figures of one configuration.

    Attributes
    ----------
    deltas : (epsilon, ln delta); None: there is no delta for it, because it is below ``smallest``
    smallest : epsilon; infinite without sampling
    assumed_step : whether a step of 1 was assumed for an attribute without one
    wanted : (epsilon, delta, the largest sample rate for it or None), if requested
    """

    k: int
    sample_rate: float
    phi: float
    observed_range: bool
    smallest: float
    deltas: tuple[tuple[float, float | None], ...]
    reaches: tuple[Reach, ...]
    assumed_step: bool
    wanted: tuple[float, float, float | None] | None
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the figures for ``--json``; infinity becomes null, and a delta is never 0."""
        return {
            "k": self.k,
            "sample_rate": self.sample_rate,
            "phi": self.phi,
            "range": "observed" if self.observed_range else "declared",
            "smallest_epsilon": self.smallest if isfinite(self.smallest) else None,
            "deltas": [
                {"epsilon": epsilon, "delta": None if found is None else delta(self.k, self.sample_rate, epsilon)}
                for epsilon, found in self.deltas
            ],
            "noise": [
                {
                    "attribute": reach.name,
                    "type": reach.kind,
                    "unit": reach.unit,
                    "range": reach.range,
                    "step": reach.step,
                    "scale": reach.scale,
                    "within": {f"{share:g}": amount for share, amount in zip(SHARES, reach.within, strict=True)},
                }
                for reach in self.reaches
            ],
            "wanted": None
            if self.wanted is None
            else dict(zip(("epsilon", "delta", "sample_rate"), self.wanted, strict=True)),
            "warnings": list(self.warnings),
        }

    def in_short(self) -> Iterator[tuple[str, str]]:
        """Yield the figures that ``crenel check`` shows."""
        yield "sample_rate", f"{self.sample_rate:.12g} of all tuples are let in"
        yield "epsilon, delta", "none is guaranteed" if self.smallest == inf else f"{self._least()}; {self._floor()}"
        yield "phi", f"{self.phi:.6g}: the scale is the {'observed' if self.observed_range else 'declared'} range / phi"
        for reach in self.reaches:
            yield "noise", f"{reach.name}: {reach.in_words()}"

    def show(self, console: Console) -> None:
        """Print all figures as tables."""
        console.print(f"sample_rate {self.sample_rate:.12g} and k {self.k}", style="bold")
        if self.smallest == inf:
            console.print("  Every tuple is let in: no epsilon is guaranteed.\n")
        else:
            deltas = figures("epsilon", "delta")
            for epsilon, found in self.deltas:
                shown = _up(log(epsilon), 4) if epsilon == self.smallest else f"{epsilon:g}"
                deltas.add_row(shown, "none: too small" if found is None else _up(found))
            indent(console, deltas)
            indent(console, f"The smallest epsilon is {self._least().split(',')[0]}: -ln(1 - sample_rate).")
            indent(console, f"{self._floor().capitalize()}: sample_rate^k.")
            indent(console, _ASSUMED, below=1)
        if self.wanted is not None:
            epsilon, most, rate = self.wanted
            console.print(f"epsilon {epsilon:g} and delta {most:g} with k {self.k}", style="bold")
            largest = "no sample_rate gives them" if rate is None else f"the largest sample_rate is {_decimal(rate)}"
            indent(console, f"{largest[0].upper()}{largest[1:]}.", below=1)
        console.print(f"noise with phi {self.phi:.6g}", style="bold")
        noise = figures("attribute", "unit", "range", "step", "scale", *(f"{100 * share:.3g} %" for share in SHARES))
        for reach in self.reaches:
            noise.add_row(
                reach.name,
                reach.unit,
                "as seen" if reach.range is None else f"{reach.range:.6g}",
                "1" if reach.step is None else f"{reach.step:.6g}",
                f"{reach.scale:.6g}",
                *(f"{amount:.6g}" for amount in reach.within),
            )
        indent(console, noise)
        indent(console, "The scale is range / phi. Such a share of tuples is moved by so much or less.")
        if self.assumed_step:
            indent(console, _GRID)

    def _least(self) -> str:
        return f"{_up(log(self.smallest), 4)}, {_up(log_delta(self.k, self.sample_rate, self.smallest))}"

    def _floor(self) -> str:
        return f"no epsilon brings delta below {_down(self.k * log(self.sample_rate))}"


def account(
    config: Config,
    epsilons: Sequence[float] | None = None,
    wanted: tuple[float, float] | None = None,
) -> Budget:
    """Compute a configuration's figures.

    Parameters
    ----------
    epsilons : epsilons to compute delta for; None: the smallest, and those of ``EPSILONS`` above it
    wanted : (epsilon, delta) to compute the largest sample rate for

    Raises
    ------
    NothingToAccountError
        The configuration has no ``sampling_and_noise``.
    """
    chosen, k = config.sampling_and_noise, config.privacy.k
    if chosen is None:
        raise NothingToAccountError
    rate = chosen.sample_rate
    smallest = smallest_epsilon(rate)
    if epsilons is None:
        epsilons = [epsilon for epsilon in (smallest, *EPSILONS) if smallest <= epsilon < inf]
    return Budget(
        k=k,
        sample_rate=rate,
        phi=chosen.phi,
        observed_range=chosen.observed_range,
        smallest=smallest,
        deltas=tuple((e, log_delta(k, rate, e) if e >= smallest else None) for e in epsilons),
        reaches=tuple(_reaches(config.policy, chosen)),
        assumed_step=any(attribute.step is None for attribute in config.policy.numeric),
        wanted=None if wanted is None else (*wanted, largest_sample_rate(k, *wanted)),
        warnings=config.warnings,
    )


def _reaches(policy: Policy, chosen: SamplingAndNoise) -> Iterator[Reach]:
    phi = chosen.phi
    for attribute in policy.quasi_identifiers:
        if not isinstance(attribute, Numeric):
            span = float(attribute.hierarchy.leaves - 1)
            noise = Noise(span, phi)
            within = tuple(map(noise.reach, SHARES))
            yield Reach(attribute.name, "categorical", "leaves", span, 1.0, noise.scale, within)
        elif chosen.observed_range or attribute.domain is None:
            within = tuple(round(100 * share_within(phi, share), 3) for share in SHARES)
            yield Reach(attribute.name, "numeric", "% of range", None, attribute.step, 100 / phi, within)
        else:
            span = attribute.domain[1] - attribute.domain[0]
            noise = Noise(span, phi, 1.0 if attribute.step is None else attribute.step)
            within = tuple(map(noise.reach, SHARES))
            yield Reach(attribute.name, "numeric", "own", span, attribute.step, noise.scale, within)


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


def figures(*columns: str) -> Table:
    """Return a table of figures, with words at the left."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if column in _WORDS else "right")
    return table


def indent(console: Console, what: Table | str, below: int = 0) -> None:
    """Print indented below a title."""
    console.print(Padding(what, (0, 0, below, 2), expand=False))
