"""Windows as a Flink operator: blocks of a shard go in, releases come out when a window closes, with its repairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pyflink.datastream import OutputTag

from anonymity.compiled.random import shard_key
from anonymity.release import Releases
from anonymity.window.parameters import WindowParameters
from anonymity.window.shard import Window
from anonymity.window.stored import WindowMemory
from operators.emit import row
from operators.repairs import REPAIRS_TYPE, WINDOWS_TYPE, repair_rows, window_rows
from operators.shards.function import ShardFunction
from operators.shards.metrics import Gauges
from operators.shards.plan import OperatorPlan
from state.shard import Stored

REPAIRS = OutputTag("repairs", REPAIRS_TYPE)
WINDOWS = OutputTag("windows", WINDOWS_TYPE)


class WindowFunction(ShardFunction[Window]):
    """Anonymises the blocks of each shard by windows; see ``anonymity.window.shard`` and ``operators.shards.function``.

    It has two more side outputs: ``REPAIRS``, one record for each swap and merge, and ``WINDOWS``, one for each window
    that closed.
    """

    counted = ("tuples_in", "released", "windows", "swaps", "merges")
    gauges: ClassVar[Gauges] = {
        "carried": lambda shards: sum(shard.carried for shard in shards),
        "target": lambda shards: max((shard.target for shard in shards), default=0),
    }

    def __init__(self, plan: OperatorPlan) -> None:
        super().__init__(plan)
        if not isinstance(plan.parameters, WindowParameters):
            raise TypeError(f"windows work with WindowParameters, not {type(plan.parameters).__name__}")
        self._parameters = plan.parameters

    def new(self, number: int) -> tuple[Window, WindowMemory]:
        plan = self._plan
        window = Window(
            plan.policy,
            plan.privacy,
            self._parameters,
            members=plan.members,
            shard=number,
            key=shard_key(plan.seed, number),
        )
        return window, WindowMemory(window, plan.fingerprint)

    def restored(self, stored: Stored, where: str) -> tuple[Window, WindowMemory]:
        plan = self._plan
        return WindowMemory.restore(
            plan.policy,
            plan.privacy,
            self._parameters,
            members=plan.members,
            fingerprint=plan.fingerprint,
            stored=stored,
            where=where,
        )

    def further(self, core: Window, releases: Releases) -> Iterator[tuple[OutputTag, Any]]:
        for values in repair_rows(core.repairs, releases):
            yield REPAIRS, row(values)
        for values in window_rows(core.repairs, releases):
            yield WINDOWS, row(values)
