"""Compilation of the core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.errors import NumbaError
from numba.np import arrayobj
from numpy.typing import NDArray

from crenel.anonymity.compiled import jit


def test_a_part_becomes_machine_code_within_its_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # Alone it is not optimized; the linker would take the first one it saw, and run it until the process ends.
    made: list[str] = []

    def add(codegen: Any, module: Any, whole: Any = JITCPUCodegen._add_module) -> Any:
        made.extend(function.name for function in module.functions if not function.is_declaration)
        return whole(codegen, module)

    monkeypatch.setattr(JITCPUCodegen, "_add_module", add)
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
    def last(values: NDArray[np.int64]) -> int:
        return int(values[-1])

    @njit  # type: ignore[untyped-decorator]
    def of_others(values: NDArray[np.int64], index: int) -> int:
        return int(values[index])

    values = np.arange(7)
    assert last(values) == 6
    assert of_others(values, -2) == 5


def test_numba_is_changed_while_code_of_ours_compiles_alone_even_if_that_fails() -> None:
    own = arrayobj.fix_integer_index, CPUCodeLibrary._optimize_final_module, CPUCodeLibrary._finalize_final_module

    @jit.leaf
    def broken(number: int) -> Any:
        return unknown(number)  # type: ignore[name-defined]  # noqa: F821

    @jit.entry
    def calling(number: int) -> Any:
        return broken(number)

    assert "crenel" not in {function.__module__.partition(".")[0] for function in own}
    with jit._compiling(""):
        assert arrayobj.fix_integer_index is jit._index_from_the_front
        with pytest.raises(NumbaError):
            calling(1)
        assert arrayobj.fix_integer_index is jit._index_from_the_front
    assert own == (
        arrayobj.fix_integer_index,
        CPUCodeLibrary._optimize_final_module,
        CPUCodeLibrary._finalize_final_module,
    )


def test_another_version_of_numba_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_IS_REPLACED", False)
    monkeypatch.setattr(jit, "_KEPT", False)

    @jit.inner_leaf
    def at(values: NDArray[np.int64], index: int) -> int:
        return int(values[index])

    @jit.entry
    def both_ends(values: NDArray[np.int64]) -> int:
        return at(values, 1) + at(values, -1)

    assert both_ends(np.arange(7)) == 7
