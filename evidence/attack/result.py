"""Effort and results of attacks: tries, confidence intervals, and their sums over several replays."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from math import sqrt
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crenel.anonymity.model.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "quasi-identifiers"
"""Knowledge of an attacker who knows all quasi-identifiers."""
PLACED = f"{ALL}, placement"
"""Knowledge of an attacker who also reads the file, the writer and the position of each row."""

_Z = 1.959963984540054
"""Quantile of the standard normal distribution for 95 % confidence."""


class AttackError(InputError):
    """Error for inputs that leave nothing to attack; the message states the reason."""

    lead = ": "


@dataclass(frozen=True)
class InputNames:
    """Names of the inputs of an attack, for messages.

    Attributes
    ----------
    released : of the published records
    sample : of the original records, as a noun
    remedy : how to give the right original records
    """

    released: str = "sinks.released"
    sample: str = "the sample"
    remedy: str = "the run's own input with --sample, or run it again"


@dataclass(frozen=True)
class Effort:
    """The attacks to run, and their effort.

    Attributes
    ----------
    seeds : replays, each with its own random choices, 1 or more
    targets : persons to re-identify per seed, at most
    within_rows : errors of the attacker's knowledge of arrival order, in tuples of the stream, 0 or more each
    within_time : errors of the attacker's knowledge of arrival times, in milliseconds of event time, 0 or more each
    known : numbers of attributes that a partially informed attacker knows
    draws : assignments of sensitive values to the members of a class, for the minimality attack; 0: no such attack
    classes : classes per seed for the minimality attack, at most
    tuples : tuples of the sample for the minimality attack, at most
    queries : range count queries per seed
    """

    seeds: int = 5
    targets: int = 1000
    within_rows: tuple[int, ...] = (0, 50)
    within_time: tuple[int, ...] = (60_000,)
    known: tuple[int, ...] = (1, 2, 3)
    draws: int = 50
    classes: int = 10
    tuples: int = 3000
    queries: int = 200


@dataclass(frozen=True)
class Attack:
    """The result of one attack.

    Attributes
    ----------
    name : of the attack
    knows : the attacker's knowledge beside the outputs, in words
    success : share of tries that succeed, from 0 to 1
    low, high : its 95 % confidence interval (``wilson``)
    baseline : success without the outputs, or on persons outside the data; None where there is none
    promised : maximum success that k allows an attacker with this knowledge; None where k implies none
    judged : ``replay``: with ground truth; ``outputs``: by the outputs of a run alone
    note : scope of the tries
    """

    name: str
    knows: str
    success: float
    low: float
    high: float
    baseline: float | None = None
    promised: float | None = None
    judged: str = "replay"
    note: str = ""

    @property
    def above(self) -> bool:
        """Whether the attack succeeds significantly more often than k allows."""
        return self.promised is not None and self.low > self.promised

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes and ``above`` as plain values."""
        return asdict(self) | {"above": self.above}


@dataclass(frozen=True)
class Queries:
    """Errors of range count queries.

    Attributes
    ----------
    count : number of queries
    error : median of the relative errors, 0 or more
    low, high : its 95 % confidence interval, by order statistics
    """

    count: int
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class AttackResults:
    """The results of all attacks.

    Attributes
    ----------
    attacks : in the order of ``docs/reference/evidence/attack.md``
    queries : errors of range count queries on the same outputs
    released : number of rows that were attacked
    """

    attacks: tuple[Attack, ...]
    queries: Queries
    released: int

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain values."""
        attacks = [attack.to_dict() for attack in self.attacks]
        return {"released": self.released, "attacks": attacks, "queries": asdict(self.queries)}

    def to_arrow(self) -> pa.Table:
        """Return one row per attack, with the attributes of ``Attack`` and ``above``."""
        kinds = {"success": pa.float64(), "low": pa.float64(), "high": pa.float64(), "above": pa.bool_()}
        kinds |= {"baseline": pa.float64(), "promised": pa.float64()}
        names = [*(f.name for f in fields(Attack)), "above"]
        schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
        return pa.Table.from_pylist([attack.to_dict() for attack in self.attacks], schema)

    def figure(self) -> Figure:
        """Return the success of each attack with its confidence interval as a picture.

        Raises
        ------
        ModuleNotFoundError
            matplotlib is not installed.
        """
        from crenel.evidence.figures import attack_figure

        return attack_figure(self.attacks, [attack.promised for attack in self.attacks])


@dataclass(frozen=True)
class Tries:
    """Number of tries and of successes; a try may succeed in part, as a guess among n does by 1 / n.

    Attributes
    ----------
    count : number of tries
    succeeded : the sum of their successes, each from 0 to 1
    """

    count: int
    succeeded: float

    def __add__(self, other: Tries) -> Tries:
        return Tries(self.count + other.count, self.succeeded + other.succeeded)

    @property
    def share(self) -> float:
        """Share of tries that succeed; 0 without tries."""
        return self.succeeded / self.count if self.count else 0.0


def wilson(tries: Tries) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share by Wilson's score method.

    It holds for partial successes as well, because a share between 0 and 1 varies at most as much as a coin of the same
    mean. It assumes independent tries; tries within one release are slightly dependent. Without tries it is 0 to 1.
    """
    n, p = tries.count, tries.share
    if not n:
        return 0.0, 1.0
    middle = (p + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    width = _Z / (1 + _Z * _Z / n) * sqrt(max(p * (1 - p), 0) / n + _Z * _Z / (4 * n * n))
    # Rounding would exclude the share at 0 and 1.
    return max(0.0, min(p, middle - width)), min(1.0, max(p, middle + width))


def attack(name: str, knows: str, tries: Tries, **further: Any) -> Attack:
    """Return an attack with the confidence interval of its tries; ``further``: attributes of ``Attack``."""
    low, high = wilson(tries)
    return Attack(name, knows, tries.share, low, high, **further)


def excess(among: Tries, control: Tries) -> tuple[float, float, float]:
    """Return the excess success on persons in the data over the control group, with its confidence interval.

    ``(among - control) / (1 - control)``, as in Anonymeter. The 95 % interval is that of a difference of two shares
    (Newcombe's, from Wilson's interval of each).
    """
    (low, high), (control_low, control_high) = wilson(among), wilson(control)
    difference = among.share - control.share
    left = 1 - control.share or 1.0
    below = ((among.share - low) ** 2 + (control_high - control.share) ** 2) ** 0.5
    above = ((high - among.share) ** 2 + (control.share - control_low) ** 2) ** 0.5
    return difference / left, (difference - below) / left, (difference + above) / left


@dataclass
class _Sum:
    tries: Tries
    baseline: Tries | None
    promised: float | None
    note: str
    excess: bool


@dataclass
class Sums:
    """Tries of each attack, by its name and the attacker's knowledge.

    Attributes
    ----------
    judged : as in ``Attack``
    """

    judged: str
    _sums: dict[tuple[str, str], _Sum] = field(default_factory=dict)

    def add(
        self,
        name: str,
        knows: str,
        tries: Tries,
        *,
        baseline: Tries | None = None,
        promised: float | None = None,
        note: str = "",
        excess: bool = False,
    ) -> None:
        """Add tries to those of the same name and knowledge; ignore empty tries.

        ``excess``: the baseline is a control group, and the note states the excess success over it.
        """
        if not tries.count:
            return
        before = self._sums.get((name, knows))
        if before is not None:
            tries = before.tries + tries
            baseline = None if baseline is None or before.baseline is None else before.baseline + baseline
        self._sums[name, knows] = _Sum(tries, baseline, promised, note, excess)

    def attacks(self) -> list[Attack]:
        """Return each attack with its confidence interval, in the order in which they were first added."""
        return [
            attack(
                name,
                knows,
                total.tries,
                baseline=None if total.baseline is None else total.baseline.share,
                promised=total.promised,
                judged=self.judged,
                note=_note(total),
            )
            for (name, knows), total in self._sums.items()
        ]


def _note(total: _Sum) -> str:
    if not total.excess or total.baseline is None:
        return total.note.format(count=f"{total.tries.count:,}")
    more, low, high = excess(total.tries, total.baseline)
    return f"excess over the control group {more:.1%} ({low:.1%} to {high:.1%})"
