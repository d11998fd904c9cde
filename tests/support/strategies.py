"""Hypothesis strategies: policies, streams and parameters at their edges."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.attributes import Categorical, Noised, Numeric, QuasiIdentifier, by_name
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.durations import LONGEST
from crenel.anonymity.model.fields import Weights
from crenel.anonymity.model.hierarchy import Hierarchy, from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Confidence, NoiseWithinRelease, Privacy
from crenel.state.block import NO_TIME
from tests.support.drive import Setting
from tests.support.source import IDENTITY, Advance, Finish, Push, Row, Step

LARGE = (0.0, -0.0, 1.0, 2.0**53, 2.0**53 + 2, -1e300, 1.7e308, -1.7e308, 1e-300, 5e-324, 0.1, 0.1 + 2**-56)
ENDS = (None, None, 3.0, 0.7)
"""Grids of published ends; none, half of the time."""

SHOWN: tuple[tuple[pa.DataType, Sequence[Any]], ...] = (
    (pa.string(), ("low", "mid", "high", None)),
    (pa.string(), ("", 'a "b", c', "Zürich\n東京")),
    (pa.int64(), (0, 2**53 + 1, -(2**63), None)),
    (pa.float64(), (0.5, -1e300, None)),
    (pa.bool_(), (True, False)),
    (pa.timestamp("ms"), (0, -62_135_596_800_000, 253_402_300_799_999, None)),
)
"""Types of published columns and values of each."""


@dataclass(frozen=True)
class Case:
    """A setting and a stream for it: tuples, and event time that passes (None: the stream has none)."""

    setting: Setting
    rows: tuple[Row, ...]
    passed: tuple[int, ...]  # the watermark when each tuple comes; never falls

    def steps(self, cuts: tuple[int, ...] = (0,)) -> list[Step]:
        """Return the stream to its end, ``cuts`` (repeated as needed) telling how often a block ends before each tuple.

        A block ends as well where the watermark rises; it passes before the tuples that come under it, as in Flink.
        """
        steps: list[Step] = []
        block: list[Row] = []
        watermark = NO_TIME
        for i, (row, passed) in enumerate(zip(self.rows, self.passed, strict=True)):
            if passed > watermark:
                steps += [Push(tuple(block), watermark), Advance(passed)]
                block, watermark = [], passed
            for _ in range(cuts[i % len(cuts)]):
                steps.append(Push(tuple(block), watermark))
                block = []
            block.append(row)
        return [*steps, Push(tuple(block), watermark), Finish()]

    def riding(self, cuts: tuple[int, ...] = (0,)) -> list[Step]:
        """Return the same stream in blocks, cut alike, that say what had passed when each of their tuples came."""
        steps: list[Step] = []
        start = 0
        for i in range(len(self.rows)):
            for _ in range(cuts[i % len(cuts)]):
                steps.append(Push(self.rows[start:i], passed=self.passed[start:i]))
                start = i
        return [*steps, Push(self.rows[start:], passed=self.passed[start:]), Finish()]

    def leaps(self) -> list[Step]:
        """Return the same stream where no step tells that event time passed: each block brings its watermark along."""
        return [*(Push((row,), passed) for row, passed in zip(self.rows, self.passed, strict=True)), Finish()]


@st.composite
def hierarchies(draw: st.DrawFn) -> Hierarchy:
    """Return a random tree of up to 12 nodes; one leaf alone as well."""
    parent = [0] + [draw(st.integers(0, node)) for node in range(draw(st.integers(0, 10)))]
    parent = [0, *parent] if draw(st.booleans()) else parent
    paths = []
    for leaf in sorted(set(range(len(parent))) - set(parent[1:])):
        path = [leaf]
        while path[-1] != 0:
            path.append(parent[path[-1]])
        paths.append([f"n{node}" for node in path])
    return from_paths(paths)


@st.composite
def attributes(draw: st.DrawFn, name: str) -> tuple[QuasiIdentifier, Sequence[float | str]]:
    """Return a quasi-identifier and its values."""
    match draw(st.sampled_from(("declared", "observed", "large", "tree", "tree"))):
        case "declared":
            lower, width = draw(st.sampled_from(((0, 10), (-5, 0), (17.5, 1e6), (2**53, 8))))
            ends = draw(st.sampled_from((None, width / 4, 0.3 * width, width))) if 5 < width != 8 else None
            return Numeric((lower, lower + width), ends=ends).named(name), [lower + i * width / 8 for i in range(9)]
        case "observed":
            return Numeric(ends=draw(st.sampled_from(ENDS))).named(name), [float(i) for i in range(-4, 5)]
        case "large":
            return Numeric(ends=draw(st.sampled_from(ENDS))).named(name), LARGE
        case _:
            tree = draw(hierarchies())
            return Categorical(tree).named(name), tree.labels[: tree.leaves]


def with_domain(
    attribute: QuasiIdentifier, values: Sequence[float | str]
) -> tuple[QuasiIdentifier, Sequence[float | str]]:
    """Return the same attribute, or a declared one in place of one that is observed: ``generalize`` needs domains."""
    if isinstance(attribute, Numeric) and attribute.domain is None:
        return Numeric((-4.0, 4.0)).named(attribute.name), [float(i) for i in range(-4, 5)]
    return attribute, values


NOISED: tuple[tuple[float, pa.DataType, Sequence[Any]], ...] = (
    (1.0, pa.int64(), range(7)),
    (2.0, pa.int64(), (1, 2, 3)),
    (0.5, pa.float64(), (0.0, 2.5, 6.0)),
    (0.1, pa.float64(), (0.3, 0.30000000000000004, 5.9)),
)
"""Step, type and values of a noised attribute in the domain [0, 6]."""


@st.composite
def noises(draw: st.DrawFn, k: int, *, confident: bool | None) -> NoiseWithinRelease:
    """Noise for releases of so many subjects; ``confident``: with confidence, None: some of the time."""
    is_confident = k >= 2 and (draw(st.booleans()) if confident is None else confident)
    return NoiseWithinRelease(
        draw(st.sampled_from((0.1, 1.0, 10.0, 100.0) if is_confident else (0.1, 1.0, 100.0))),
        scale=draw(st.sampled_from(("release", "domain"))),
        least=draw(st.sampled_from((0.0, 0.02, 1.0))),
        confidence=Confidence(draw(st.floats(0.3, 0.99)), draw(st.integers(2, k))) if is_confident else None,
    )


@st.composite
def castle_parameters(draw: st.DrawFn, *, timed: bool) -> Castle:
    """Parameters at their edges and between them."""
    tuples = st.sampled_from((0, 1, 3, 6, 10, 16, 30, 10_000))
    time = st.sampled_from((0, 1, 5, 20, 1000, LONGEST))
    bound = draw(st.sampled_from(("tuples", "event_time", "both"))) if timed else "tuples"
    return Castle(
        Delay(
            None if bound == "event_time" else draw(tuples),
            None if bound == "tuples" else draw(time),
            jitter=draw(st.sampled_from((0.0, 0.0, 0.25, 0.5, 1.0))),
        ),
        max_clusters=draw(st.sampled_from((1, 2, 4, 50, 50))),
        loss_window=draw(st.sampled_from((1, 2, 3, 100))),
        reuse_limit=draw(st.sampled_from((0, 1, 2, 100))),
        suppression=draw(st.sampled_from(("withhold", "generalize"))),
    )


@st.composite
def weights_of(draw: st.DrawFn, policy: Policy) -> Weights:
    """Return weights of all attributes, or none, half of the time."""
    weighted = policy.attributes if draw(st.booleans()) else ()
    return {attribute.name: draw(st.sampled_from((0.01, 1.0, 2.5, 1e300))) for attribute in weighted}


@st.composite
def settings_of(
    draw: st.DrawFn,
    timed: bool | None,
    confident: bool | None,
    plain: bool,
    named: bool | None,
    changed: dict[str, Any],
) -> tuple[Setting, list[Any], list[Any]]:
    """Return a setting, the values of its quasi-identifiers, and the values of its published columns."""
    named = True if plain else named
    attribute = [draw(attributes(f"q{i}")) for i in range(draw(st.integers(1, 6)))]
    sensitive = draw(st.lists(st.sampled_from(SHOWN), max_size=2))
    passed = draw(st.lists(st.sampled_from(SHOWN), max_size=1))
    noised = draw(st.lists(st.sampled_from(NOISED), min_size=bool(confident), max_size=2))
    noised = noised if not plain and (confident or draw(st.booleans())) else []
    policy = Policy(
        quasi_identifiers=by_name(tuple(found for found, _ in attribute)),
        sensitive=tuple(f"s{i}" for i in range(len(sensitive))),
        noised={f"n{i}": Noised((0.0, 6.0), step) for i, (step, _, _) in enumerate(noised)},
        passthrough=(*(f"p{i}" for i in range(len(passed))), IDENTITY),
        subject=draw(st.sampled_from((None, "who"))) if named is None else "who" if named else None,
        event_time="at" if (draw(st.booleans()) if timed is None else timed) else None,
    )
    k = draw(st.sampled_from((2, 3, 4, 6) if confident else (1, 2, 3, 4, 6, 6)))
    noise = draw(noises(k, confident=confident)) if noised else None
    privacy = Privacy(k, draw(st.sampled_from(sorted({1, min(2, k), k}))), noise_within_release=noise)
    parameters = draw(castle_parameters(timed=policy.event_time is not None))
    parameters = replace(parameters, weights=draw(weights_of(policy)), **changed)
    if parameters.suppression == "generalize":
        attribute = [with_domain(*pair) for pair in attribute]
        policy = replace(policy, quasi_identifiers=by_name(tuple(found for found, _ in attribute)))
    shown = [*sensitive, *((kind, values) for _, kind, values in noised), *passed]
    setting = Setting(policy, privacy, parameters, (*(kind for kind, _ in shown), pa.int64()))
    return setting, [values for _, values in attribute], [values for _, values in shown]


@st.composite
def cases(
    draw: st.DrawFn,
    /,
    *,
    timed: bool | None = None,
    confident: bool | None = None,
    plain: bool = False,
    named: bool | None = None,
    **changed: Any,
) -> Case:
    """Return a setting and a stream; ``changed`` are parameters that are not random.

    ``timed``, ``confident``, ``named``: whether there are event time, confidence in noise within releases, and
    subjects; None: by chance.
    ``plain``: there are subjects, and nothing is noised.
    """
    setting, values, shown = draw(settings_of(timed, confident, plain, named, changed))
    # Few places, so that tuples repeat, clusters fill and published generalizations contain later tuples.
    points = draw(st.lists(st.tuples(*map(st.sampled_from, values)), min_size=1, max_size=10))
    people = draw(st.sampled_from((1, 2, 4, 12, 12, 200)))
    length = draw(st.sampled_from((0, 1, 3, 8, 20, 20, 30, 30, 40, 40, 50, 50, 60, 60, 60)))
    # From a seed: drawn one by one, most long streams would be more than hypothesis handles. Shorter is a prefix.
    chance = Random(draw(st.integers(0, 2**32)))
    weights = [chance.choice((1, 4, 16)) for _ in points]  # rare places are outliers
    usual = [(chance.choice(column), chance.choice((0.0, 0.8))) for column in shown]
    now, watermark = chance.choice((0, -50, 2**40)), NO_TIME
    rows, passed = [], []
    for i in range(length):
        subject = chance.randrange(people)
        seen = [
            value if chance.random() < often else chance.choice(c)
            for c, (value, often) in zip(shown, usual, strict=True)
        ]
        now += chance.randrange(10)
        late = max(chance.randint(-6, 3), 0) ** 5
        watermark = max(watermark, now - 10) if chance.random() < 0.3 else watermark
        timed_row = setting.policy.event_time is not None
        rows.append(
            Row(
                values=chance.choices(points, weights)[0],
                published=(*seen, i * 7 + 3),
                subject=None if setting.policy.subject is None else subject,
                event_time=now - late if timed_row else NO_TIME,
            )
        )
        passed.append(watermark if timed_row else NO_TIME)
    return Case(setting, tuple(rows), tuple(passed))


ONE_BY_ONE = (1,)
cuts = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)
"""Any cutting of a stream into blocks; twice at one place leaves an empty block between."""

_few = st.lists(st.integers(0, 60), max_size=8)
restores: st.SearchStrategy[Container[int]] = _few | _few | st.integers(1, 9).map(lambda every: range(0, 1000, every))
"""Numbers of the steps after which a shard is restored from its stored state: a few, or one in so many."""
