"""A shard of windows by reference, for compiled functions: see ``anonymity.castle.reference``."""

from __future__ import annotations

from typing import Any

from numba.experimental import structref

from anonymity.compiled.jit import entry
from anonymity.compiled.random import RandomStream
from anonymity.compiled.reference import Fields, borrow, borrow_boxes, borrow_domain, define
from anonymity.release import Out
from anonymity.window.arrays import Groups, Points, Scale, WindowLive, Work


@structref.register
class _LiveType(Fields):
    pass


class SharedWindow(structref.StructRefProxy):
    """What ``share_window`` returns: a shard that compiled functions take as one pointer."""


define(SharedWindow, _LiveType, WindowLive._fields)


@entry
def share_window(live: WindowLive) -> Any:
    """The shard by reference, valid while ``live`` is kept; its fields are those of ``WindowLive``."""
    p, g, w, o, r, s = live.points, live.groups, live.work, live.out, live.random, live.scale
    return SharedWindow(
        borrow(live.scalars),
        borrow(live.parameters),
        borrow(live.settings),
        borrow(live.control),
        RandomStream(borrow(r.key), borrow(r.used), borrow(r.words)),
        borrow_domain(live.domain),
        Scale(borrow(s.numeric), borrow(s.categorical), borrow(s.depth)),
        Points(
            borrow(p.numeric),
            borrow(p.bits),
            borrow(p.leaf),
            borrow(p.value),
            borrow(p.event_time),
            borrow(p.position),
            borrow(p.waits),
            borrow(p.reason),
        ),
        borrow(live.held),
        Groups(
            borrow_boxes(g.box),
            borrow_boxes(g.centre),
            borrow(g.head),
            borrow(g.tail),
            borrow(g.tuples),
            borrow(g.subjects),
            borrow(g.diversity),
            borrow(g.loss),
            borrow(g.oldest),
            borrow(g.earliest),
            borrow(g.state),
            borrow(g.merged),
        ),
        Work(
            borrow(w.next),
            borrow(w.code),
            borrow(w.table),
            borrow(w.here),
            borrow(w.there),
            borrow(w.stamp),
            borrow(w.free),
            borrow(w.first),
            borrow(w.last),
            borrow(w.size),
            borrow(w.distance),
            borrow(w.near),
            borrow(w.near_distance),
            borrow(w.flag),
            borrow(w.fit),
            borrow(w.values),
            borrow(w.leaves),
            borrow_boxes(w.box),
        ),
        Out(
            borrow_boxes(o.box),
            borrow(o.kind),
            borrow(o.subjects),
            borrow(o.diversity),
            borrow(o.loss),
            borrow(o.event_time),
            borrow(o.end),
            borrow(o.members),
            borrow(o.suppressed),
            borrow(o.reason),
        ),
        borrow(live.totals),
        borrow(live.loss_total),
        borrow(live.delays),
        borrow(live.actions),
        borrow(live.changes),
        borrow(live.window),
        borrow(live.entropy),
    )
