"""Compilation of the core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core import codegen, compiler, event
from numba.core.errors import NumbaError
from numba.np import arrayobj
from numpy.typing import NDArray

from crenel.anonymity.compiled import jit


def test_a_part_becomes_machine_code_within_its_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # Alone it is not optimized; the linker would take the first one it saw, and run it until the process ends.
    made: list[str] = []

    def add(codegen: Any, module: Any, whole: Any = codegen.JITCPUCodegen._add_module) -> Any:
        made.extend(function.name for function in module.functions if not function.is_declaration)
        return whole(codegen, module)

    monkeypatch.setattr(codegen.JITCPUCodegen, "_add_module", add)
    monkeypatch.setattr(jit, "_KEPT", False)

    @jit.procedure
    def twice(number: int) -> int:
        return 2 * number

    @jit.entry
    def four_times(number: int) -> int:
        return twice(twice(number))

    assert four_times(3) == 12
    assert len([name for name in made if "twice" in name]) == 1


def test_an_index_counts_from_the_end_where_it_is_written_so_and_in_the_code_of_others() -> None:
    @jit.entry
    def lasts(values: NDArray[np.int64], table: NDArray[np.int64], row: int) -> int:
        table[row, -1] *= 2
        return int(values[-1] + table[row, -1])

    @njit  # type: ignore[untyped-decorator]
    def of_others(values: NDArray[np.int64], index: int) -> int:
        return int(values[index])

    values = np.arange(7)
    assert lasts(values, np.arange(6).reshape(3, 2), 2) == 6 + 2 * 5
    assert of_others(values, -2) == 5


def test_a_computed_index_counts_from_the_front_without_a_comparison() -> None:
    @jit.leaf
    def put(values: NDArray[np.int64], table: NDArray[np.int64], index: int) -> None:
        values[index] += 100
        table[index, np.int32(1)] = 100

    @jit.entry
    def before(values: NDArray[np.int64], table: NDArray[np.int64], index: int) -> int:
        put(values, table, index)
        return int(values[index] + table[index, np.int32(1)])

    values, table = np.arange(7), np.arange(6).reshape(3, 2)
    assert before(values[3:], table[1:], -1) == 102 + 100
    assert (values[2], table[0, 1]) == (102, 100)


def test_numba_stays_as_it_is_while_code_of_ours_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_KEPT", False)
    owners = (codegen.CPUCodeLibrary, codegen.JITCodeLibrary, codegen.JITCPUCodegen, compiler.CompilerBase, arrayobj)
    before = [dict(vars(owner)) for owner in owners]

    @jit.leaf
    def broken(number: int) -> Any:
        return unknown(number)  # type: ignore[name-defined]  # noqa: F821

    @jit.leaf
    def last(values: NDArray[np.int64]) -> int:
        return int(values[-1])

    @jit.entry
    def calling(values: NDArray[np.int64], index: int) -> int:
        return last(values) + int(values[index])

    @jit.entry
    def failing(number: int) -> Any:
        return broken(number)

    with event.install_recorder("numba:run_pass") as steps, monkeypatch.context() as patched:
        seen: list[bool] = []
        patched.setattr(steps, "on_start", lambda _: seen.append(before == [dict(vars(owner)) for owner in owners]))
        assert calling(np.arange(7), 2) == 8
        with pytest.raises(NumbaError):
            failing(1)
    assert len(seen) > 20
    assert all(seen)
    assert before == [dict(vars(owner)) for owner in owners]
