"""Pass-by-reference form of the arrays with a lasting guarantee: see ``crenel.anonymity.compiled.reference``."""

from __future__ import annotations

from numba.experimental import structref

from crenel.anonymity.algorithms.nearest.lasting.arrays import Groups, LastingArrays, Persons, Rows
from crenel.anonymity.compiled.reference import Fields, Proxy, by_reference


@structref.register
class _PersonsFields(Fields):
    pass


@structref.register
class _GroupsFields(Fields):
    pass


@structref.register
class _RowsFields(Fields):
    pass


@structref.register
class _ShardFields(Fields):
    pass


class _Persons(Proxy):
    pass


class _Groups(Proxy):
    pass


class _Rows(Proxy):
    pass


class _Shard(Proxy):
    pass


share = by_reference(
    LastingArrays,
    {
        Persons: (_Persons, _PersonsFields),
        Groups: (_Groups, _GroupsFields),
        Rows: (_Rows, _RowsFields),
        LastingArrays: (_Shard, _ShardFields),
    },
)
"""Return ``LastingArrays`` in their pass-by-reference form, valid while the arrays are kept."""
