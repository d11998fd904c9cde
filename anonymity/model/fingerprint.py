"""Fingerprint that ties stored state to the policy under which it was created."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType

from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import RestoreError
from crenel.anonymity.model.hierarchy import Hierarchy, LazyLabels
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.model.secret import NO_KEY, SubjectKey


class Fingerprint(dict[str, str]):
    """Short hashes of the fields that must not change while state exists, by field name.

    Attributes
    ----------
    roles : role of each column that is published unchanged; empty where the fingerprint was read from state
    counted : sensitive columns whose values a privacy model counts
    """

    roles: Mapping[str, str] = MappingProxyType({})
    counted: frozenset[str] = frozenset()


REPORTED_FIELDS: Mapping[str, str] = {
    "source.query": "the query",
    "source.ddl": "a computed column of the source",
}
"""Fields whose changes are allowed but reported, with a description of each."""

BUDGETED = "budget of "
"""Start of the names of fields whose changes add up guarantees, which is allowed but reported."""

EPOCH = "epoch"
"""The field that differs for shards that were started anew."""

COUNTED = "policy.sensitive."
"""Start of the name of a new sensitive column whose values a privacy model counts."""

UNCOUNTED = (
    "waiting tuples have no value of this new column, and a privacy model would count them as one value; add the "
    "column with l: 1 and no other model, and give it models at a later restore"
)

_SUBJECT_TYPE = "type of the subject "
_GENERALIZED = "policy.generalized."
_TYPE = "type of the column "
_CHANGEABLE = frozenset(("policy.sensitive", "policy.passthrough"))
_COLUMN_MODELS = "privacy.sensitive."


def fingerprint(
    policy: Policy,
    shards: Shards,
    subject_key: SubjectKey,
    members: Mapping[str, str],
    *,
    algorithm: str = "castle",
    parameters: Mapping[str, object] = MappingProxyType({}),
    sampling_and_noise: SamplingAndNoise | None = None,
    subject_type: str | None = None,
    source: Mapping[str, str] | None = None,
    budgeted: Mapping[str, object] = MappingProxyType({}),
    privacy: Privacy | None = None,
    epoch: int = 1,
) -> Fingerprint:
    """Return a short hash for each field that must not change while state exists, by field name.

    These fields are fixed: columns and their roles; ``members``, the types of published columns; domains, hierarchies,
    and the treatment of missing values. Pass-through and sensitive columns may still come, go and change their order,
    where state holds their names (``changed_fields``). The same holds for the split into shards with the cuts of
    regions, and for the subject key. The type of the subject counts because its hash covers the text that the type
    yields.

    Some fields are present only where they apply. Sampling and noise include the noise steps, because buffered tuples
    carry noise drawn on arrival. Sensitive arrays include their sizes, and generalized columns their hierarchies and
    levels. Noised attributes include their grids, and sensitive columns of ``privacy`` their references. ``epoch``
    appears unless it is 1; another epoch means other shards.

    k, l and the algorithm's parameters may change between two runs, except ``parameters``, by their fields. A reference
    may appear or disappear together with the privacy models that use it. A change of ``source``, the texts of
    ``REPORTED_FIELDS`` by name, is only reported, because a rewritten query may mean the same. So is one of
    ``budgeted``, by field (``crenel.anonymity.algorithm.Algorithm``).

    The key is represented by ``SubjectKey.stored``.
    """
    fields: dict[str, object] = {
        "algorithm": algorithm,
        "policy.quasi_identifiers": [attribute.name for attribute in policy.attributes],
        "policy.sensitive": policy.sensitive,
        "policy.passthrough": policy.passthrough,
        "policy.subject": policy.subject,
        "policy.event_time": policy.event_time,
        "policy.missing": policy.missing,
        "shards.count": shards.count,
        "shards.by": shards.by,
        "subject_key": NO_KEY.stored,
    }
    for attribute in policy.attributes:
        place = f"policy.quasi_identifiers.{attribute.name}"
        if isinstance(attribute, Numeric):
            fields[f"{place}.domain"] = attribute.domain
            if sampling_and_noise is not None:
                fields[f"{place}.step"] = attribute.step
        else:
            fields[f"{place}.hierarchy"] = _content(attribute.hierarchy)
    if shards.regions is not None:
        fields["shards.regions"] = shards.regions.cuts
    if policy.subject_normalization:
        fields["policy.subject_normalization"] = sorted(policy.subject_normalization)
    if policy.arrays:
        fields["policy.arrays"] = sorted(policy.arrays.items())
    for of in policy.generalized.values():
        fields[f"{_GENERALIZED}{of.name}"] = [of.level, _content(of.hierarchy)]
    if policy.noised:
        fields["policy.noised"] = [
            [attribute.name, attribute.domain, attribute.step] for attribute in policy.noised.values()
        ]
    for name, column in [] if privacy is None else privacy.sensitive.items():
        if column.reference is not None:
            fields[f"{_COLUMN_MODELS}{name}.reference"] = [column.reference.values, column.reference.shares]
    for name, kind in members.items():
        fields[f"{_TYPE}{name}"] = kind
    if policy.subject is not None and subject_type is not None:
        fields[f"{_SUBJECT_TYPE}{policy.subject}"] = subject_type
    fields.update(source or {})
    fields.update({f"{BUDGETED}{name}": value for name, value in budgeted.items()})
    if sampling_and_noise is not None:
        fields["sampling_and_noise"] = {
            "sample_rate": sampling_and_noise.sample_rate,
            "phi": sampling_and_noise.inverse_scale,
            "observed_range": sampling_and_noise.has_observed_range,
        }
    fields.update(parameters)
    if epoch != 1:
        fields[EPOCH] = epoch
    found = Fingerprint({name: _short(value) for name, value in fields.items()})
    found.roles = {name: policy.roles[name] for name in policy.members}
    found.counted = frozenset(
        name
        for name in policy.sensitive
        if privacy is not None and (privacy.l_of(name)[0] > 1 or privacy.further_of(name))
    )
    if subject_key:
        found["subject_key"] = subject_key.stored
    return found


def hierarchy_digest(hierarchy: Hierarchy) -> str:
    """Return the short hash of a hierarchy, as in fingerprints."""
    return _short(_content(hierarchy))


def changed_fields(
    stored: Mapping[str, str], now: Mapping[str, str], columns: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the fields that must not change but differ between two fingerprints; sorted.

    The result includes fields present in only one of them. With ``columns``, the stored roles of the published columns,
    pass-through and sensitive columns may come, go and change their order. A sensitive column that a privacy model
    counts cannot come: buffered tuples have no value of it, and would count as if they shared one.
    """
    changed = {name for name in stored.keys() | now.keys() if _differs(name, stored, now)}
    if columns and isinstance(now, Fingerprint):
        other = columns.keys() ^ now.roles.keys()
        changed = changed - _CHANGEABLE - {f"{of}{name}" for of in (_TYPE, _GENERALIZED) for name in other}
        both = columns.keys() & now.roles.keys()
        changed |= {
            f"policy.{of[name]}" for name in both if columns[name] != now.roles[name] for of in (columns, now.roles)
        }
        changed |= {f"{COUNTED}{name}" for name in now.counted - columns.keys()}
    return tuple(sorted(changed))


def reported_fields(stored: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ``REPORTED_FIELDS``, and those of ``BUDGETED``, that differ between two fingerprints; sorted."""
    return tuple(sorted(name for name in stored if _is_reported(name) and stored[name] != now.get(name)))


def _is_reported(name: str) -> bool:
    return name in REPORTED_FIELDS or name.startswith(BUDGETED)


def require_same(
    stored: Mapping[str, str], now: Mapping[str, str], where: str, columns: Mapping[str, str] | None = None
) -> None:
    """Raise ``RestoreError`` with the field names where a stored fingerprint differs from the policy's.

    ``columns`` is that of ``changed_fields``.
    """
    if changed := changed_fields(stored, now, columns):
        uncounted = "".join(f" {name}: {UNCOUNTED}." for name in changed if name.startswith(COUNTED))
        raise RestoreError(
            "restore the state under the policy it was made with; and to change that, drain the job (flink stop "
            "--drain), and go on from its savepoint with another epoch. These cannot change on a restore: "
            f"{', '.join(changed)}.{uncounted} The stored state of {where} was made under another policy"
        )


def _differs(name: str, stored: Mapping[str, str], now: Mapping[str, str]) -> bool:
    if _is_reported(name):
        return False
    if name.startswith(_COLUMN_MODELS) and (name not in stored or name not in now):
        return False
    return stored.get(name) != now.get(name)


def _content(hierarchy: Hierarchy) -> list[object]:
    if isinstance(hierarchy.labels, LazyLabels):
        return hierarchy.labels.stored
    return [hierarchy.labels, hierarchy.parent.tolist()]


def _short(value: object) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()
