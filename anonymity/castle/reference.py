"""A shard by reference, for compiled functions.

Numba passes a NamedTuple field by field: with all the arrays of a shard, each call would move hundreds of values and
take minutes to compile. ``share`` wraps the same arrays in structures that are passed as one pointer; their fields
have the names, types and meaning of those in ``anonymity.castle.arrays``. The arrays are borrowed, because counting
references to them would take a third of the time: whoever calls ``share`` keeps ``live`` until the compiled function
returns.
"""

from __future__ import annotations

from numba.experimental import structref

from anonymity.castle.arrays import Clusters, Heap, Live, Omega, Tuples
from anonymity.compiled.counting import Counts
from anonymity.compiled.jit import entry
from anonymity.compiled.random import RandomStream
from anonymity.compiled.reference import Fields, borrow, borrow_boxes, borrow_domain, define
from anonymity.release import Out
from anonymity.space.boxes_by_attribute import BoxesByAttribute


@structref.register
class _StreamType(Fields):
    pass


@structref.register
class _TuplesType(Fields):
    pass


@structref.register
class _ClustersType(Fields):
    pass


@structref.register
class _CountsType(Fields):
    pass


@structref.register
class _HeapType(Fields):
    pass


@structref.register
class _OmegaType(Fields):
    pass


@structref.register
class _OutType(Fields):
    pass


@structref.register
class _LiveType(Fields):
    pass


class _Stream(structref.StructRefProxy):
    pass


class _Tuples(structref.StructRefProxy):
    pass


class _Clusters(structref.StructRefProxy):
    pass


class _Counts(structref.StructRefProxy):
    pass


class _Heap(structref.StructRefProxy):
    pass


class _Omega(structref.StructRefProxy):
    pass


class _Out(structref.StructRefProxy):
    pass


class Shared(structref.StructRefProxy):
    """What ``share`` returns: a shard that compiled functions take as one pointer."""


define(_Stream, _StreamType, RandomStream._fields)
define(_Tuples, _TuplesType, Tuples._fields)
define(_Clusters, _ClustersType, Clusters._fields)
define(_Counts, _CountsType, Counts._fields)
define(_Heap, _HeapType, Heap._fields)
define(_Omega, _OmegaType, Omega._fields)
define(_Out, _OutType, Out._fields)
define(Shared, _LiveType, Live._fields)


@entry
def share(live: Live) -> Live:
    """The shard by reference, valid while ``live`` is kept: a ``Shared``, whose fields are those of ``Live``."""
    r, t, c, n = live.random, live.tuples, live.clusters, live.counts
    h, o, u = live.heap, live.omega, live.out
    return Shared(  # type: ignore[return-value]
        borrow(live.scalars),
        borrow(live.parameters),
        borrow(live.tau),
        borrow(live.ring),
        _Stream(borrow(r.key), borrow(r.used), borrow(r.words)),
        borrow_domain(live.domain),
        _Tuples(
            borrow(t.numeric),
            borrow(t.leaf),
            borrow(t.subject),
            borrow(t.sensitive),
            borrow(t.event_time),
            borrow(t.position),
            borrow(t.cluster),
            borrow(t.next),
            borrow(t.previous),
            borrow(t.younger),
            borrow(t.older),
        ),
        _Clusters(
            borrow(c.rows),
            borrow(c.place),
            borrow_boxes(c.box),
            BoxesByAttribute(
                borrow(c.sides.lower),
                borrow(c.sides.upper),
                borrow(c.sides.first),
                borrow(c.sides.last),
                borrow(c.sides.loss),
                borrow(c.sides.growth),
                borrow(c.sides.step),
            ),
            borrow(c.id),
            borrow(c.head),
            borrow(c.tail),
            borrow(c.tuples),
            borrow(c.subjects),
            borrow(c.diversity),
            borrow(c.changed),
        ),
        _Counts(borrow(n.owner), borrow(n.value), borrow(n.tuples), borrow(n.used)),
        borrow(live.diversity),
        _Heap(borrow(h.slots), borrow(h.at)),
        _Omega(borrow_boxes(o.box), borrow(o.subjects), borrow(o.diversity), borrow(o.release), borrow(o.matches)),
        _Out(
            borrow_boxes(u.box),
            borrow(u.kind),
            borrow(u.subjects),
            borrow(u.diversity),
            borrow(u.loss),
            borrow(u.event_time),
            borrow(u.end),
            borrow(u.members),
            borrow(u.suppressed),
            borrow(u.reason),
        ),
        borrow(live.totals),
        borrow(live.loss_total),
        borrow(live.delays),
    )
