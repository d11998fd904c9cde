"""Controllers of SUHDSA that the product lacks: other policies of l_t, and a window driven by p95 of the delay.

Section 3.2 of the paper moves the window by the p95 of the delay in small steps, with hysteresis and a dwell time, and
states no rule. ``experiments.suhdsa.policies`` has the policies of l_t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.algorithms.suhdsa import procedures
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.parameters import Adaptive, Target
from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaShard
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.domain import NONE
from experiments.harness import Floats, Table, mean_interval, seeds
from experiments.suhdsa.policies import Lowering, LoweringByGroup, RaisingByGroup
from experiments.suhdsa.tables import SEEDS, Maker, Run, Stream, bursts, ours, plain, run, shard_of, skewed

_MOST = 5
"""l_max, the maximum number of income brackets."""

_LONGEST = 250
"""Maximum window in tuples where the delay drives it: as many as a burst brings in ``_DELAY`` ms."""

_DELAY = 50


POLICIES: dict[str, type[SuhdsaShard]] = {
    "window, 1 - e_t": SuhdsaShard,
    "window, e_t": Lowering,
    "group, 1 - e_t": RaisingByGroup,
    "group, e_t": LoweringByGroup,
}
"""Shards by the entropy that sets l_t and its direction; the first is the product's."""


def by_policy(kind: type[SuhdsaShard], least: int) -> Maker:
    """Return a maker of shards whose l_min is ``least``, whatever l the run asks for."""

    def make(policy: Policy, privacy: Privacy, parameters: Suhdsa) -> SuhdsaShard:
        return shard_of(kind, policy, Privacy(privacy.k, least), parameters)

    return make


class WindowOfDelay(SuhdsaShard):
    """SUHDSA that records the delays of released tuples, and may move the window by their p95.

    Attributes
    ----------
    delays : event time in milliseconds from each released tuple to the last admitted one, by window
    target : p95 of the delay to reach, in milliseconds; None: the window stays as it is
    band : share of ``target`` by which p95 may differ without a change (hysteresis)
    dwell : minimum number of windows between two changes; the delays of the last ones are judged together
    """

    target: float | None = None
    band = 0.05
    dwell = 2

    def __init__(self, *given: Any, **how: Any) -> None:
        super().__init__(*given, **how)
        self.delays: list[Floats] = []
        self._judged = 0
        self._run = self._recorded  # type: ignore[misc]  # mypy takes it for the class's own

    def _recorded(
        self,
        shard: Any,
        slots: NDArray[np.int32],
        done: int,
        watermarks: NDArray[np.int64],
        watermark: int,
        ended: bool,
    ) -> tuple[int, int]:
        out, times = self.arrays.out, self.arrays.tuples.event_time
        before = int(out.filled.members)
        done, repairs = map(int, procedures.run(shard, slots, done, watermarks, watermark, ended))
        if repairs != NONE:
            last = max(watermark, int(times[slots[done - 1]]) if done else watermark)
            self.delays.append((last - times[out.members[before : out.filled.members]]).astype(np.float64))
            self._judged += 1
            if self.target is not None and self._judged >= self.dwell:
                self._steer(self.target)
        return done, repairs

    def _steer(self, target: float) -> None:
        found = np.concatenate(self.delays[-self.dwell :])
        if not len(found):
            return
        now, parameters, p95 = self.arrays.now, self.context.algorithm, np.percentile(found, 95)
        size = int(now.window_tuples)
        step = max(size // 10, 1) * (int(p95 < target * (1 - self.band)) - int(p95 > target * (1 + self.band)))
        if step:
            now.window_tuples = min(max(size + step, self.context.privacy.k), parameters.tuples)
            self._judged = 0


class WindowOfTarget(WindowOfDelay):
    """``WindowOfDelay`` that moves the window toward a p95 of ``_DELAY`` ms."""

    target = float(_DELAY)


def shifts(seed: int, values: int = 2) -> Stream:
    """Return Adult with a tuple per millisecond in the first half, and five per millisecond in the second."""
    stream = plain(seed, values)
    gaps = np.where(np.arange(len(stream.income)) < len(stream.income) // 2, 5, 1)
    return replace(
        stream, policy=replace(stream.policy, event_time="at"), event_time=np.cumsum(gaps, dtype=np.int64) // 5
    )


def target_table() -> Table:
    """Tabulate l_t by window and by group, in both directions, from 1 and from 2."""
    table = Table(
        f"l_t by window and by group, l_max {_MOST}, at k = 10 and window 50 (mean and 95 % confidence interval)",
        ["stream", "l_min", "l_t of", "loss", "suppressed, %", "releases with 2 values, %", "entropy, bits", "repairs"],
    )
    streams: tuple[tuple[str, Callable[[int], Stream]], ...] = (
        ("Adult", plain),
        ("skew", skewed),
        ("five brackets", partial(plain, values=5)),
    )
    for name, stream in streams:
        for least in (2, 1):
            made: dict[str, tuple[Maker, Target | None]] = {"off": (by_policy(SuhdsaShard, least), None)}
            made |= {of: (by_policy(kind, least), Target(_MOST)) for of, kind in POLICIES.items()}
            for of, (make, target) in made.items():
                runs = [run(make, stream(seed), 10, 2, Suhdsa(50, target=target)) for seed in seeds(SEEDS)]
                table.add(name, least, of, *_cells(runs))
    return table


def _cells(runs: list[Run]) -> list[str]:
    return [
        mean_interval([one.loss for one in runs]),
        mean_interval([100 * one.suppressed for one in runs], ".2f"),
        mean_interval([100 * one.lsr for one in runs], ".1f"),
        mean_interval([one.entropy for one in runs]),
        f"{np.mean([one.swaps + one.merges for one in runs]):,.0f}",
    ]


def delay_table() -> Table:
    """Tabulate windows by the delay in event time: of fixed size, bounded by time, and driven by p95."""
    table = Table(
        "Windows by delay in event time, at k = 10 and l = 2 (mean and 95 % confidence interval)",
        ["stream", "window", "loss", "suppressed, %", "p50, ms", "p95, ms", "p99, ms", "tuples a window"],
    )
    adaptive = Adaptive(10)
    rows: tuple[tuple[str, type[WindowOfDelay], Suhdsa], ...] = (
        ("50 tuples", WindowOfDelay, Suhdsa(50)),
        (f"{_LONGEST} tuples", WindowOfDelay, Suhdsa(_LONGEST)),
        (f"{_DELAY} ms", WindowOfDelay, Suhdsa(event_time=_DELAY)),
        (f"`adaptive`, at most {_LONGEST}", WindowOfDelay, Suhdsa(_LONGEST, adaptive=adaptive)),
        (f"p95 of {_DELAY} ms, at most {_LONGEST}", WindowOfTarget, Suhdsa(_LONGEST)),
    )
    for name, stream in (("bursts", bursts), ("one shift of the rate", shifts)):
        for words, kind, parameters in rows:
            runs, tails, sizes = [], [], []
            for seed in seeds(SEEDS):
                shards: list[WindowOfDelay] = []

                def make(
                    *given: Any, kind: type[WindowOfDelay] = kind, shards: list[WindowOfDelay] = shards
                ) -> SuhdsaShard:
                    shards.append(cast(WindowOfDelay, shard_of(kind, *given)))
                    return shards[-1]

                runs.append(run(make, stream(seed), 10, 2, parameters))
                delays = shards[0].delays
                tails.append(np.percentile(np.concatenate(delays), [50, 95, 99]))
                sizes.append(float(np.mean([len(one) for one in delays])))
            table.add(
                name,
                words,
                *_cells(runs)[:2],
                *(mean_interval([one[i] for one in tails], ".1f") for i in range(3)),
                f"{np.mean(sizes):.0f}",
            )
    return table


def policies() -> Iterator[Table]:
    """Yield the table of l_t."""
    for make in (ours, *(by_policy(kind, 2) for kind in POLICIES.values())):
        run(make, plain(0), 10, 2, Suhdsa(50, target=Target(_MOST)))  # compile
    yield target_table()


def delays() -> Iterator[Table]:
    """Yield the table of windows by delay."""
    yield delay_table()
