"""Privacy models of a job in the form of arrays for compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import stable_order
from crenel.anonymity.compiled.jit import Int, inner, inner_leaf, leaf, procedure
from crenel.anonymity.model.errors import InvariantError
from crenel.anonymity.model.reference import Reference
from crenel.anonymity.privacy_models.function_pointers import address_of, call_on_counts, call_on_values
from crenel.anonymity.privacy_models.lookup import Lookup, lookup_of
from crenel.anonymity.privacy_models.tally import Tally, diversity
from crenel.anonymity.privacy_models.value_frequencies import share_of

if TYPE_CHECKING:
    from crenel.anonymity.model.policy import Policy
    from crenel.anonymity.model.privacy import Privacy
    from crenel.anonymity.model.privacy_model import Parameter, PrivacyModel

SUBJECTS, VALUES = 1, 2
"""Positions of the reasons of k and l in ``crenel.anonymity.model.outcomes.SUPPRESSIONS``."""

_DIVERSITY = 0  # the address of l-diversity, which is part of the compiled code


class Checks(NamedTuple):
    """Conditions on sensitive values, one entry per privacy model and sensitive column.

    Attributes
    ----------
    address : address of the compiled ``PrivacyModel.lacking``; 0 for l-diversity
    attribute : position of the column among the sensitive ones
    parameter : l, or the first number of the model's parameter
    parameters : (checks, numbers) all numbers of the parameter, padded with 0
    values : minimum number of values in a satisfying set
    reason : position in ``Privacy.reasons``
    length : number of reference numbers; 0 where ``PrivacyModel.compares`` is false
    reference : (checks, numbers) the reference, as ``PrivacyModel.lacking`` takes it
    lookup : rows of the values in the references
    """

    address: NDArray[np.int64]
    attribute: NDArray[np.int64]
    parameter: NDArray[np.float64]
    parameters: NDArray[np.float64]
    values: NDArray[np.int64]
    reason: NDArray[np.int64]
    length: NDArray[np.int64]
    reference: NDArray[np.float64]
    lookup: Lookup


def checks_of(policy: Policy, privacy: Privacy, *, aimed: bool = False) -> Checks:
    """Return the checks of a job.

    There is none for l = 1, which every tuple satisfies, unless ``aimed``, so that an ``aim`` may raise it. Values have
    no numbers yet (``crenel.anonymity.privacy_models.lookup``).

    Raises
    ------
    crenel.anonymity.model.errors.PolicyError
        A privacy model names a column that is not sensitive, or lacks the reference that it needs.
    """
    privacy.require_columns(policy.sensitive)
    rows: list[tuple[int, int, tuple[float, ...], int, int]] = []
    compared: list[tuple[float, ...]] = []
    references = [privacy.reference_of(column) for column in policy.sensitive]
    for attribute, model, parameter, reason in models_of(policy, privacy, aimed=aimed):
        numbers = parameter if isinstance(parameter, tuple) else (parameter,)
        if model is None:
            rows.append((_DIVERSITY, attribute, numbers, int(numbers[0]), privacy.reasons.index(reason)))
            compared.append(())
            continue
        values = model.least_values(parameter)
        address = address_of(model.lacking, compares=model.compares)
        rows.append((address, attribute, numbers, values, privacy.reasons.index(reason)))
        reference = references[attribute] if model.compares else None
        compared.append(() if reference is None else _compared(model, reference))
    parameters = _side_by_side([row[2] for row in rows])
    addresses, attributes, values, reasons = np.array([(*row[:2], *row[3:]) for row in rows], np.int64).reshape(-1, 4).T
    return Checks(
        np.ascontiguousarray(addresses),
        np.ascontiguousarray(attributes),
        parameters[:, 0].copy(),
        parameters,
        np.ascontiguousarray(values),
        np.ascontiguousarray(reasons),
        np.array([len(numbers) for numbers in compared], np.int64),
        _side_by_side(compared),
        lookup_of(references, policy.widths),
    )


def models_of(
    policy: Policy, privacy: Privacy, *, aimed: bool = False
) -> Iterator[tuple[int, PrivacyModel | None, Parameter, str]]:
    """Yield column, model, parameter and reason of each check, in the order of ``checks_of``; None: l-diversity."""
    for attribute, column in enumerate(policy.sensitive):
        l, reason = privacy.l_of(column)  # noqa: E741 - the field's own name for it
        if l > 1 or aimed:
            yield attribute, None, l, reason
        for model, parameter, reason in privacy.further_of(column):
            yield attribute, model, parameter, reason


def _compared(model: PrivacyModel, reference: Reference) -> tuple[float, ...]:
    """Return the numbers that a model takes from a reference.

    For the stream so far, these are the numbers before the shares, and room for one share.
    """
    return model.table(Reference(("",), (1.0,)) if reference.of_stream else reference)


def _side_by_side(rows: list[tuple[float, ...]]) -> NDArray[np.float64]:
    made = np.zeros((len(rows), max((len(row) for row in rows), default=1)))
    for into, row in zip(made, rows, strict=True):
        into[: len(row)] = row
    return made


@procedure
def falling_counts(tally: Tally, attribute: Int) -> NDArray[np.int64]:
    """Return the number of persons with each value, in falling order."""
    negative = np.empty(tally.values[attribute], np.int64)
    distinct = 0
    for i in range(tally.used[attribute]):
        if tally.counts[attribute, i] > 0:
            negative[distinct] = -tally.counts[attribute, i]
            distinct += 1
    order = stable_order(negative)
    falling = np.empty(distinct, np.int64)
    for i in range(distinct):
        falling[i] = -negative[order[i]]
    return falling


@procedure
def _lacking_at(address: Int, tally: Tally, attribute: Int, parameters: NDArray[np.float64]) -> float:
    falling = falling_counts(tally, attribute)  # so that the order of values in the tally does not matter
    counts = np.empty(len(falling), np.int64)
    # A person with several values counts for the most common one that is not yet full. However an attacker picks one
    # value per person, the first n values never cover more persons than these counts. No pick is more uneven, so all
    # picks satisfy what these counts satisfy.
    left, values = tally.persons[0], 0
    for i in range(len(falling)):
        counts[i] = min(falling[i], left)
        left -= counts[i]
        values += counts[i] > 0
    return float(call_on_counts(address, tally.persons[0], counts[:values], parameters))


@procedure
def _lacking_beside(checks: Checks, check: Int, tally: Tally) -> float:
    attribute, length = checks.attribute[check], checks.length[check]
    rows, held = np.empty(tally.values[attribute], np.int64), np.empty(tally.values[attribute], np.int64)
    distinct = 0
    for i in range(tally.used[attribute]):
        if tally.counts[attribute, i] > 0:
            rows[distinct] = checks.lookup.row[attribute, tally.named[attribute, i]]
            held[distinct] = tally.counts[attribute, i]
            distinct += 1
    order = stable_order(rows)  # so that sums are rounded alike, whatever the order of values in the tally
    rising, counts = np.empty(distinct, np.int64), np.empty(distinct, np.int64)
    for i in range(distinct):
        rising[i], counts[i] = rows[order[i]], held[order[i]]
    reference, parameters = checks.reference[check, :length], checks.parameters[check]
    if checks.lookup.seen.follows[attribute]:
        reference = np.empty(length - 1 + distinct)
        for i in range(length - 1):
            reference[i] = checks.reference[check, i]
        for i in range(distinct):
            reference[length - 1 + i] = share_of(checks.lookup.seen, attribute, rising[i])
            rising[i] = i if rising[i] >= 0 else -1
    return float(call_on_values(checks.address[check], tally.persons[0], counts, parameters, rising, reference))


@inner
def lack(checks: Checks, check: Int, tally: Tally) -> float:
    """Return the shortfall of a set for one check; 0 where it satisfies the check."""
    attribute = checks.attribute[check]
    if checks.address[check] == 0:
        return max(checks.parameter[check] - diversity(tally, attribute), 0.0)
    if checks.length[check] > 0:
        return _lacking_beside(checks, check, tally)
    return _lacking_at(checks.address[check], tally, attribute, checks.parameters[check])


@inner
def first_violation(checks: Checks, tally: Tally) -> Int:
    """Return the first check that a set violates; -1 where it satisfies all."""
    for check in range(len(checks.address)):
        if lack(checks, np.int64(check), tally) > 0.0:
            return np.int64(check)
    return np.int64(-1)


@inner
def unsatisfiable(checks: Checks, tally: Tally) -> Int:
    """Return the first check that no subset of a set can satisfy; -1 where there is none.

    A set satisfies l-diversity whenever a subset does, so a check that the set violates is unsatisfiable. Above l = 2,
    ``diversity`` is conservative where a person has several values, so a subset's may be larger. For other models a
    subset may satisfy a check that the set violates, as long as it has enough values.
    """
    for check in range(len(checks.address)):
        attribute = checks.attribute[check]
        exact = tally.held[attribute] == tally.persons[0] or checks.parameter[check] <= 2.0
        if checks.address[check] != 0 or not exact:
            if tally.values[attribute] < checks.values[check]:
                return np.int64(check)
        elif lack(checks, np.int64(check), tally) > 0.0:
            return np.int64(check)
    return np.int64(-1)


@inner_leaf
def has_values(checks: Checks, tally: Tally) -> bool:
    """Return whether a set has as many values as each check needs; otherwise no subset of it satisfies all checks."""
    for check in range(len(checks.address)):
        if tally.values[checks.attribute[check]] < checks.values[check]:
            return False
    return True


@inner_leaf
def only_diversity(checks: Checks) -> bool:
    """Return whether l-diversity is the only condition on sensitive values."""
    for address in checks.address:
        if address != 0:
            return False
    return True


@leaf
def only_counts(checks: Checks) -> bool:
    """Return whether no condition compares the values of a set with a reference."""
    for length in checks.length:
        if length > 0:
            return False
    return True


@procedure
def lack_of_counts(checks: Checks, check: Int, persons: Int, counts: NDArray[np.int64]) -> float:
    """Return the shortfall for a check without reference, other than l-diversity, of a set with one value per person.

    ``counts`` holds the number of persons with each value, the most common one first.
    """
    order, values = stable_order(counts), 0
    falling = np.empty(len(counts), np.int64)
    for i in range(len(counts)):
        falling[i] = counts[order[len(counts) - 1 - i]]
        values += falling[i] > 0
    return float(call_on_counts(checks.address[check], persons, falling[:values], checks.parameters[check]))


@inner
def satisfies_all(checks: Checks, k: Int, tally: Tally) -> bool:
    """Return whether a set has k subjects and satisfies all checks."""
    return bool(tally.persons[0] >= k and first_violation(checks, tally) < 0)


@inner
def enforce(checks: Checks, k: Int, tally: Tally, diversities: NDArray[np.int64]) -> None:
    """Perform the final check of a release: raise if its members violate a privacy model.

    ``diversities`` (attributes,) receives the diversity for the audit log.
    """
    for attribute in range(len(diversities)):
        diversities[attribute] = diversity(tally, np.int64(attribute))
    guarantee_subjects(k, tally.persons[0])
    check = first_violation(checks, tally)
    if check >= 0:
        if checks.address[check] == 0:
            raise InvariantError("a release is not l-diverse; nothing of it was emitted")
        raise InvariantError("a release breaks a privacy model of its sensitive values; nothing of it was emitted")


@leaf
def guarantee_subjects(k: Int, subjects: Int) -> None:
    """Raise if a release has too few distinct subjects."""
    if subjects < k:
        raise InvariantError("a release has fewer than k distinct subjects; nothing of it was emitted")


@leaf
def enforce_counted(checks: Checks, k: Int, subjects: Int, diversities: NDArray[np.int64]) -> None:
    """Perform the final check of a reused generalization, for which only counts are kept."""
    guarantee_subjects(k, subjects)
    for check in range(len(checks.address)):
        if checks.address[check] == 0 and diversities[checks.attribute[check]] < checks.parameter[check]:
            raise InvariantError("a release is not l-diverse; nothing of it was emitted")


@leaf
def aim(checks: Checks, aims: Checks, values: Int) -> None:
    """Copy the parameters of ``checks`` to ``aims``, and raise those of l-diversity to at least ``values``."""
    for check in range(len(checks.address)):
        aims.parameter[check] = checks.parameter[check]
        if checks.address[check] == 0:
            aims.parameter[check] = max(checks.parameter[check], float(values))
