"""The promises of a job as compiled code asks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numpy.typing import NDArray

from anonymity.compiled.jit import Int, inner, leaf, procedure
from anonymity.promise.counting import stable_order
from anonymity.promise.diversity import diversity
from anonymity.promise.tally import Tally

if TYPE_CHECKING:
    from anonymity.policy import Policy, Privacy

SUBJECTS, VALUES = 1, 2
"""Positions of the reasons of k and l in ``anonymity.policy.SUPPRESSIONS``."""

_DIVERSITY = 0  # the address of what is part of the compiled code
_SIGNATURE = types.float64(types.int64, types.int64, types.CPointer(types.int64), types.int64, types.float64)


class Checks(NamedTuple):
    """What is promised of sensitive values, one entry for each promise and sensitive column.

    Attributes
    ----------
    address : where the compiled ``Promise.lacking`` is; 0 for l
    attribute : position of the column among the sensitive ones
    parameter : what was promised
    reason : position in ``Privacy.reasons``
    """

    address: NDArray[np.int64]
    attribute: NDArray[np.int64]
    parameter: NDArray[np.float64]
    reason: NDArray[np.int64]


def checks_of(policy: Policy, privacy: Privacy, *, aimed: bool = False) -> Checks:
    """The checks of a job; none for l = 1, which every tuple satisfies, but where an ``aim`` may ask for more."""
    rows: list[tuple[int, int, float, int]] = []
    for attribute in range(len(policy.sensitive)):
        if privacy.l > 1 or aimed:
            rows.append((_DIVERSITY, attribute, privacy.l, VALUES))
        for promise, parameter in privacy.further:
            reason = privacy.reasons.index(promise.reason)
            rows.append((_address(promise.lacking), attribute, parameter, reason))
    address, attributes, parameters, reasons = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Checks(
        np.array(address, np.int64),
        np.array(attributes, np.int64),
        np.array(parameters, np.float64),
        np.array(reasons, np.int64),
    )


_KEPT: list[Any] = []
"""Compiled functions whose addresses were given out."""


@cache
def _address(lacking: Callable[..., float]) -> int:
    compiled = njit(lacking)

    def call(persons: Any, held: Any, counts: Any, values: Any, parameter: Any) -> Any:
        return compiled(persons, held, carray(counts, values), parameter)

    made: Any = cfunc(_SIGNATURE)(call)
    _KEPT.append(made)
    return int(made.address)


def _call(_context: Any, address: Any, persons: Any, held: Any, counts: Any, parameter: Any) -> Any:
    """Call a compiled ``Promise.lacking`` by its address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole, real = ir.IntType(64), ir.DoubleType()
        array = context.make_array(signature.args[3])(context, builder, args[3])
        size = builder.extract_value(array.shape, 0)
        function = ir.FunctionType(real, [whole, whole, array.data.type, whole, real])
        pointer = builder.inttoptr(args[0], function.as_pointer())
        return builder.call(pointer, [args[1], args[2], array.data, size, args[4]])

    return types.float64(address, persons, held, counts, parameter), codegen


_call_at: Any = intrinsic(_call)


@procedure
def _lacking_at(address: Int, tally: Tally, attribute: Int, parameter: float) -> float:
    falling = np.empty(tally.values[attribute], np.int64)
    found = 0
    for i in range(tally.used[attribute]):
        if tally.counts[attribute, i] > 0:
            falling[found] = -tally.counts[attribute, i]
            found += 1
    order = stable_order(falling)  # so that it does not matter which value stands where
    counts = np.empty(len(order), np.int64)
    for i in range(len(order)):
        counts[i] = -falling[order[i]]
    return float(_call_at(address, tally.persons[0], tally.held[attribute], counts, parameter))


@inner
def lack(checks: Checks, check: Int, tally: Tally) -> float:
    """By how much a set falls short of one check; 0 where it satisfies."""
    attribute = checks.attribute[check]
    if checks.address[check] == 0:
        return max(checks.parameter[check] - diversity(tally, attribute), 0.0)
    return _lacking_at(checks.address[check], tally, attribute, checks.parameter[check])


@inner
def broken(checks: Checks, tally: Tally) -> Int:
    """The first check that a set does not satisfy; -1 where it satisfies all."""
    for check in range(len(checks.address)):
        if lack(checks, np.int64(check), tally) > 0.0:
            return np.int64(check)
    return np.int64(-1)


@inner
def hopeless(checks: Checks, tally: Tally) -> Int:
    """The first check that no part of a set could satisfy; -1 where there is none.

    What a part satisfies, the whole does: so a check is hopeless that the whole does not satisfy. But above l = 2 the
    number for l-diversity is one on the safe side, where somebody has several values, and a part's may be larger.
    """
    for check in range(len(checks.address)):
        attribute = checks.attribute[check]
        exact = tally.held[attribute] == tally.persons[0] or checks.parameter[check] <= 2.0
        if checks.address[check] == 0 and not exact:
            if tally.values[attribute] < checks.parameter[check]:
                return np.int64(check)
        elif lack(checks, np.int64(check), tally) > 0.0:
            return np.int64(check)
    return np.int64(-1)


@inner
def keeps_promises(checks: Checks, k: Int, tally: Tally) -> bool:
    """Whether a set has k subjects and satisfies all checks."""
    return bool(tally.persons[0] >= k and broken(checks, tally) < 0)


@inner
def guarantee(checks: Checks, k: Int, tally: Tally, diversities: NDArray[np.int64]) -> None:
    """The last word before a release leaves: raise where its members break a promise.

    ``diversities`` (attributes,) becomes what the audit log tells.
    """
    for attribute in range(len(diversities)):
        diversities[attribute] = diversity(tally, np.int64(attribute))
    guarantee_subjects(k, tally.persons[0])
    check = broken(checks, tally)
    if check >= 0:
        if checks.address[check] == 0:
            raise RuntimeError("a release is not l-diverse; nothing of it was emitted")
        raise RuntimeError("a release breaks a promise on sensitive values; nothing of it was emitted")


@leaf
def guarantee_subjects(k: Int, subjects: Int) -> None:
    """Raise where a release has too few distinct subjects."""
    if subjects < k:
        raise RuntimeError("a release has fewer than k distinct subjects; nothing of it was emitted")


@leaf
def guarantee_counted(checks: Checks, k: Int, subjects: Int, diversities: NDArray[np.int64]) -> None:
    """The same for a generalisation that is reused, of which only counts are kept."""
    guarantee_subjects(k, subjects)
    for check in range(len(checks.address)):
        if checks.address[check] == 0 and diversities[checks.attribute[check]] < checks.parameter[check]:
            raise RuntimeError("a release is not l-diverse; nothing of it was emitted")


@leaf
def aim(checks: Checks, aims: Checks, values: Int) -> None:
    """Let ``aims`` ask for what ``checks`` do, and for ``values`` values where these ask for l."""
    for check in range(len(checks.address)):
        aims.parameter[check] = checks.parameter[check]
        if checks.address[check] == 0:
            aims.parameter[check] = max(checks.parameter[check], float(values))
