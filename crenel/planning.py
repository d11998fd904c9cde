"""Choice of settings, and explanation of their cost, within a Python process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.fields import DurationLike
from crenel.anonymity.model.policy import SHARD_BY_SUBJECT, Shards
from crenel.assessment import outputs_of
from crenel.evidence.plan import plan as evidence
from crenel.evidence.plan.grid import Wait
from crenel.evidence.why.explanation import Explanation, explain
from crenel.plan_settings import PlannedSettings
from crenel.results import Result
from crenel.settings import Settings
from crenel.stream import read_sample


@dataclass(frozen=True)
class Plan(evidence.PlanResult):
    """Replays of settings around given ones, and a recommendation.

    Attributes
    ----------
    settings : the recommended settings, or the nearest ones where none meets the constraints (``meets``); None where no
        setting has the required k and l
    regions : the file of learned regions that the settings refer to; None where they refer to none
    """

    settings: Settings | None
    regions: Path | None

    def __str__(self) -> str:
        table = self.to_arrow().to_pandas().dropna(axis="columns", how="all")
        return f"{len(table)} settings on {len(self.sample):,} records\n{table.to_string(index=False)}"

    def __repr__(self) -> str:
        return str(self)  # not the records of the sample


def plan(
    data: Any,
    settings: Settings,
    *,
    max_loss: float | None = None,
    max_delay: Delay | None = None,
    max_suppressed: float | None = None,
    min_k: int | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    replays: int = 100,
    rows: int = 50_000,
    lateness: DurationLike = 0,
    regions: str | Path | None = None,
    processes: int | None = 1,
) -> Plan:
    """Replay data under settings around given ones, and recommend one.

    Without any constraint, the recommended settings have the least loss at no longer delay and with no more suppressed
    records than the given ones.

    Parameters
    ----------
    data : as for ``anonymize``; a few thousand records at least for a useful plan
    settings : the settings to begin from
    max_loss : maximum mean loss, from 0 to 1
    max_delay : maximum p99 of the delay: ``event_time`` where the policy has event time, else ``tuples``
    max_suppressed : maximum share of suppressed records, from 0 to 1
    min_k : minimum k; None: that of ``settings``
    vary : values to try, by ``"algorithm"`` (names), ``"k"``, ``"l"``, ``"delay"`` (each a ``Delay``), ``"shards"``
        (each a number or ``Shards``), or a dotted field such as ``"castle.max_clusters"``; only these values and the
        given settings are recommended then
    replays : maximum number of settings to try
    rows : maximum number of records, the first ones
    lateness : as for ``anonymize``
    regions : file to write learned regions to, if the plan recommends them; None: no regions are learned
    processes : number of processes; None: one per core. More than one need a program whose statements are guarded by
        ``if __name__ == "__main__":``

    Raises
    ------
    ConfigError, TypeError, ValueError
        As ``anonymize``; or fewer than two records are valid, or an argument is invalid.

    Examples
    --------
    >>> import crenel, pyarrow as pa
    >>> visits = pa.table({"age": [20 + i * 7 % 60 for i in range(300)]})
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
    ...     privacy=crenel.Privacy(k=5),
    ...     algorithm=crenel.Nearest(crenel.Delay(tuples=10)),
    ...     seed=1,
    ... )
    >>> vary = {"algorithm": ["nearest"], "delay": [crenel.Delay(tuples=10), crenel.Delay(tuples=80)]}
    >>> plan = crenel.plan(visits, settings, max_delay=crenel.Delay(tuples=100), vary=vary)
    >>> plan.meets, plan.settings.algorithm.delay.tuples, plan.settings.privacy.k
    (True, 80, 5)
    >>> plan.to_arrow().column_names[:5]
    ['algorithm', 'k', 'l', 'delay_tuples', 'delay_event_time_ms']
    """
    varied = _varied(vary or {})
    for name, share in (("max_loss", max_loss), ("max_suppressed", max_suppressed)):
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"{name}: must be a share from 0 to 1, such as 0.2")
    if regions is not None and not Path(regions).absolute().parent.is_dir():
        raise ValueError("regions: the folder of the file does not exist; create it")
    sample, setting = read_sample(data, settings, lateness=lateness, rows=rows)
    delay = None if max_delay is None else _delay_limit(max_delay, timed=sample.milliseconds > 0)
    limits = evidence.Limits(max_loss, delay, max_suppressed, min_k)
    with TemporaryDirectory("crenel-plan") if regions is not None else nullcontext() as temporary:
        planned = PlannedSettings(settings, setting.privacy, None if temporary is None else Path(temporary))
        request = evidence.Request(sample, setting, limits, varied, replays)
        found = evidence.plan(request, planned, _silent, processes=processes)
        recommended, written = None, None
        if found.chosen is not None:
            point = found.chosen.setting
            learned = planned.learned_regions(point)
            if regions is not None and learned is not None:
                written = Path(regions).absolute()
                written.write_text(learned, encoding="utf-8")
                planned.regions[point.shards] = str(written)
            recommended = planned.of(point)
    known = {f.name: getattr(found, f.name) for f in fields(found)}
    return Plan(**known, settings=recommended, regions=written)


def why(
    data: Any,
    settings: Settings,
    *,
    result: Result | None = None,
    rows: int = 50_000,
    lateness: DurationLike = 0,
) -> Explanation:
    """Explain suppression, rejection and loss of data under settings, by replays of changed settings.

    Counts of categories, ranges and rejected records are rounded down to a multiple of k, so that the explanation
    discloses no single person.

    Parameters
    ----------
    data : as for ``anonymize``; a few thousand records at least for a useful explanation
    settings : policy, privacy models and algorithm
    result : outputs of ``anonymize`` under these settings, to count as well; None: the replays alone
    rows : maximum number of records, the first ones
    lateness : as for ``anonymize``

    Raises
    ------
    ConfigError, TypeError, ValueError
        As ``anonymize``; or fewer than two records are valid, or the result is of other settings.

    Examples
    --------
    >>> import crenel, pyarrow as pa
    >>> visits = pa.table({"age": [20 + i * 7 % 60 for i in range(300)]})
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
    ...     privacy=crenel.Privacy(k=7),
    ...     algorithm=crenel.Nearest(crenel.Delay(tuples=5)),
    ...     seed=1,
    ... )
    >>> explanation = crenel.why(visits, settings)
    >>> explanation.remedies.suppressed["too_few_subjects"]
    300
    >>> explanation.remedies.nearest("too_few_subjects").change
    'a delay of 10 tuples'
    """
    sample, setting = read_sample(data, settings, lateness=lateness, rows=rows)
    planned = PlannedSettings(settings, setting.privacy, None)
    outputs = None if result is None else outputs_of(result, settings)
    return explain(sample, setting, planned.make, _silent, outputs)


def _silent(replays: int) -> Callable[[], object]:
    return lambda: None


def _delay_limit(delay: Delay, *, timed: bool) -> float:
    """Return the maximum delay in the measure of the sample; ``timed``: whether the sample has event time."""
    if timed and delay.event_time is None:
        raise ValueError("max_delay: the data has event time; give Delay(event_time=...)")
    if not timed and delay.tuples is None:
        raise ValueError("max_delay: the data has no event time; give Delay(tuples=...), or set policy.event_time")
    return float((delay.event_time if timed else delay.tuples) or 0)


def _varied(vary: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return values by the name of a dimension of ``Grid``, or texts by a dotted field."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, values in vary.items():
        if isinstance(values, str) or not values:
            raise ValueError(f"vary[{name!r}]: must be a list of values")
        if "." in name:
            found[name] = tuple(value if isinstance(value, str) else json.dumps(value) for value in values)
        elif name in _DIMENSIONS:
            dimension, convert = _DIMENSIONS[name]
            found[dimension] = tuple(convert(value) for value in values)
        else:
            names = ", ".join(_DIMENSIONS)
            raise ValueError(f"vary: {name!r} is none of {names}, and no dotted field such as castle.max_clusters")
    return found


def _algorithm(value: Any) -> str:
    if value not in known_algorithms():
        raise ValueError(f"vary['algorithm']: {value!r} is none of {', '.join(known_algorithms())}")
    return str(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError("vary: k and l must be whole numbers, 1 or more")
    return value


def _wait(value: Any) -> Wait:
    if not isinstance(value, Delay):
        raise ValueError("vary['delay']: must be a list of Delay, such as Delay(tuples=1000)")
    return value.tuples, value.event_time


def _division(value: Any) -> tuple[int, str]:
    shards = value if isinstance(value, Shards) else Shards(_whole(value))
    return shards.count, shards.by if shards.count > 1 else SHARD_BY_SUBJECT


_DIMENSIONS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "algorithm": ("algorithms", _algorithm),
    "k": ("k", _whole),
    "l": ("l", _whole),
    "delay": ("waits", _wait),
    "shards": ("shards", _division),
}
"""Attribute of ``Grid``, and conversion of its values, by the name of a dimension."""
