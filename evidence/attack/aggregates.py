"""Sums of attack results over several replays."""

from __future__ import annotations

from dataclasses import dataclass, field

from crenel.evidence.attack.result import Attack, Tries, attack, excess


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
    _held: dict[tuple[str, str], _Sum] = field(default_factory=dict)

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
        before = self._held.get((name, knows))
        if before is not None:
            tries = before.tries + tries
            baseline = None if baseline is None or before.baseline is None else before.baseline + baseline
        self._held[name, knows] = _Sum(tries, baseline, promised, note, excess)

    def attacks(self) -> list[Attack]:
        """Return each attack with its confidence interval, in the order in which they were first added."""
        return [
            attack(
                name,
                knows,
                held.tries,
                baseline=None if held.baseline is None else held.baseline.share,
                promised=held.promised,
                judged=self.judged,
                note=_note(held),
            )
            for (name, knows), held in self._held.items()
        ]


def _note(held: _Sum) -> str:
    if not held.excess or held.baseline is None:
        return held.note.format(count=f"{held.tries.count:,}")
    more, low, high = excess(held.tries, held.baseline)
    return f"excess over the control group {more:.1%} ({low:.1%} to {high:.1%})"
