"""Promises of single sensitive columns, through every algorithm, judged by ``tests.support.sensitive``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithm import Algorithm, Shard, ShardContext
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.builtin import ALPHA, BETA, ENTROPY_L, RECURSIVE, T
from crenel.anonymity.model.attributes import Categorical
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import Hierarchy, from_paths
from crenel.anonymity.model.outcomes import KINDS
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, Sensitive
from crenel.anonymity.model.privacy_model import Parameter
from crenel.anonymity.model.reference import Distance, Reference
from crenel.state.shard import StoredShard
from tests.support.drive import KEY, PRINT, Setting, columns_of, hashes
from tests.support.example_counts import FEW
from tests.support.sensitive import apart, ground_of, kept
from tests.support.settings import models_of, sensitive_of
from tests.support.source import IDENTITY, Finish, Push, Row

REUSED = KINDS.index("reused")
TREE = from_paths([[f"{i}", f"{i // 2}x", f"{i // 4}xx", "*"] for i in range(8)])
POLICY = Policy({"q": Categorical(TREE)}, sensitive=("illness", "pay"), passthrough=(IDENTITY,), subject="who")
TYPES = (pa.string(), pa.string(), pa.int64())
ALGORITHMS = (Castle, Nearest, Suhdsa, Mondrian, Ola)
MADE: dict[str, Any] = {
    Castle.name: Castle(Delay(12), max_clusters=4, reuse_limit=1000),
    Nearest.name: Nearest(Delay(12, jitter=0.25), reuse_limit=1000),
    Suhdsa.name: Suhdsa(12),
    Mondrian.name: Mondrian(Window(20)),
    Ola.name: Ola(Window(20), max_suppression=0.5),
}
of_each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)


def beside(kind: Distance = "equal", tree: Hierarchy | None = None, **shares: float) -> Reference:
    """Return a reference, with the codes that ``Setting.block`` gives its values."""
    return Reference(tuple(shares), tuple(shares.values()), tuple(hashes(shares).tolist()), kind, tree)


# d of illness is in no reference.
ELSEWHERE = {"illness": beside(b=0.2, a=0.5, c=0.3), "pay": beside(x=0.6, y=0.2, z=0.1, v=0.1)}
MEANT = {
    "illness": beside("hierarchical", from_paths(["amz", "bmz", "cnz", "dnz"]), b=0.2, a=0.5, c=0.3),
    "pay": beside("ordered", x=0.6, y=0.2, z=0.1, v=0.1),
}
STREAMED: dict[str, Reference] = {}
HALVES = {"illness": beside(a=0.5, b=0.5)}
EVEN = {"illness": beside(a=0.25, b=0.25, c=0.25, d=0.25)}


def sensitive(
    column: str, least: int | None, *further: tuple[Any, Parameter], references: dict[str, Reference] = ELSEWHERE
) -> dict[str, Sensitive]:
    """Privacy models of one column, with its reference where one of them takes it and there is one."""
    compares = any(model.compares for model, _ in further)
    return {column: sensitive_of(least, further, references.get(column) if compares else None)}


model_choices = st.one_of(
    st.sampled_from([((ALPHA, alpha),) for alpha in (0.3, 0.5, 0.7)]),
    st.sampled_from([((ENTROPY_L, mixed),) for mixed in (1.5, 2.0, 2.7, 3.0)]),
    st.sampled_from([((RECURSIVE, (c, below)),) for c in (0.5, 1.0, 3.0) for below in (2.0, 3.0)]),
    st.just(((ALPHA, 0.7), (ENTROPY_L, 1.7), (RECURSIVE, (2.0, 2.0)))),
    st.sampled_from([((T, t),) for t in (0.15, 0.3, 0.5)]),
    st.sampled_from([((BETA, beta),) for beta in (0.5, 1.0, 3.0)]),
    st.just(((T, 0.4), (BETA, 2.0), (ALPHA, 0.8))),
)
privacies = st.builds(
    lambda least, further, illness, pay, references: Privacy(
        3,
        least,
        models=models_of(further),
        sensitive=sensitive("illness", None, *illness, references=references)
        | (sensitive("pay", 2, *pay, references=references) if pay else {}),
    ),
    st.sampled_from((1, 1, 2)),
    st.sampled_from(((), (), ((ALPHA, 0.8),))),
    model_choices,
    st.one_of(st.just(()), model_choices),
    st.sampled_from((ELSEWHERE, MEANT, STREAMED)),
)
people = st.sampled_from((4, 9, 1000))
streams = st.tuples(
    st.lists(st.tuples(st.integers(0, 7), st.sampled_from("aaabbcd"), st.sampled_from("xxyz")), max_size=60),
    st.randoms(use_true_random=False),
    people,
).map(
    lambda drawn: [
        Row((str(place),), (illness, pay, i), drawn[1].randrange(drawn[2]), i)
        for i, (place, illness, pay) in enumerate(drawn[0])
    ]
)


def setting(algorithm: Algorithm, privacy: Privacy) -> tuple[ShardContext, Setting]:
    of = Setting(POLICY, privacy, MADE[algorithm.name], TYPES)
    return ShardContext(POLICY, privacy, MADE[algorithm.name], of.members, fingerprint=PRINT), of


def run(
    algorithm: Algorithm, privacy: Privacy, stream: list[Row], size: int, *, restored: bool = False
) -> tuple[list[Releases], Shard]:
    """Return the releases of a shard that is restored after each step or never, and the shard at the end."""
    terms, of = setting(algorithm, privacy)
    stored, found = StoredShard(b"", {}), []
    shard: Shard = algorithm.new(terms, 0, KEY)
    steps = [*(Push(tuple(stream[i : i + size])) for i in range(0, len(stream), size)), Finish()]
    for step in steps:
        out = shard.push(of.block(step.rows)) if isinstance(step, Push) else shard.finish()
        assert out.changes is not None
        stored = stored.after(out.changes)
        if restored:
            shard = algorithm.restored(terms, stored, "")
        found.append(out.releases)
    assert shard.counters.buffered == 0
    return found, shard


def parameters_of(privacy: Privacy, column: str) -> dict[str, tuple[float, ...]]:
    """Return the privacy models of a column beside l: its own, else those of all columns."""
    own = privacy.sensitive[column].further if column in privacy.sensitive else ()
    every: Iterable[tuple[Any, Parameter]] = (*privacy.further, *own)
    return {model.name: given if isinstance(given, tuple) else (given,) for model, given in every}


def follows(privacy: Privacy) -> bool:
    """Return whether a model compares with the stream so far."""
    return any(of is not None and of.of_stream for of in map(privacy.reference_of, POLICY.sensitive))


def shares_in(found: Reference, came: list[Row], column: int) -> dict[Any, float]:
    """Return the shares of values in a reference, or in the stream so far."""
    if not found.of_stream:
        return dict(zip(found.values, found.shares, strict=True))
    counts = Counter(row.published[column] for row in came)
    return {value: count / len(came) for value, count in counts.items()}


def judge(privacy: Privacy, stream: list[Row], outputs: Iterable[Releases]) -> None:
    """Require that each tuple is published once, every release satisfies every model, and nothing is reused.

    Where anything is compared with the stream so far, a tuple came in each step but the last.
    """
    gone: list[int] = []
    for number, out in enumerate(outputs, 1):
        assert REUSED not in out.kind.tolist()
        for start, stop in zip(out.offsets, out.offsets[1:], strict=False):
            members = [stream[identity] for identity in out.members[2][start:stop]]
            gone += out.members[2][start:stop]
            assert len({row.subject for row in members}) >= privacy.k
            for a, column in enumerate(POLICY.sensitive):
                rows = [(row.subject, row.published[a]) for row in members]
                assert len({value for _, value in rows}) >= privacy.l_of(column)[0]
                for name, parameter in parameters_of(privacy, column).items():
                    found = privacy.reference_of(column)
                    shares = None if found is None else shares_in(found, stream[:number], a)
                    ground = apart if found is None else ground_of(found)
                    assert kept(name, parameter, rows, shares, ground), (column, name, parameter, rows)
        gone += out.suppressed_position.tolist()
        assert {privacy.reasons[reason] for reason in out.suppressed_reason} <= set(privacy.reasons)
    assert sorted(gone) == list(range(len(stream)))


@of_each_algorithm
@given(privacy=privacies, stream=streams, sizes=st.tuples(st.integers(1, 25), st.integers(1, 25)))
@FEW
def test_what_leaves_keeps_every_promise_however_it_is_cut_and_after_a_restore(
    algorithm: Algorithm, privacy: Privacy, stream: list[Row], sizes: tuple[int, int]
) -> None:
    outputs, _ = run(algorithm, privacy, stream, 1 if follows(privacy) else sizes[0])
    judge(privacy, stream, outputs)
    other, _ = run(algorithm, privacy, stream, sizes[1], restored=True)
    assert columns_of(outputs) == columns_of(other)


@of_each_algorithm
@pytest.mark.parametrize("model", [(T, 0.3), (BETA, 1.0)], ids=["t", "beta"])
def test_without_a_reference_releases_are_compared_with_the_stream_so_far(algorithm: Algorithm, model: Any) -> None:
    privacy, released = Privacy(3, sensitive=sensitive("illness", None, model, references=STREAMED)), 0
    for seed in range(6):
        chance = Random(seed)
        stream = [Row((str(chance.randrange(8)),), (chance.choice("aaabbcd"), "x", i), i, i) for i in range(60)]
        outputs, shard = run(algorithm, privacy, stream, 1)
        judge(privacy, stream, outputs)
        released += shard.counters.released
        other, _ = run(algorithm, privacy, stream, 7, restored=True)
        assert columns_of(outputs) == columns_of(other)
    assert released > 120  # of 360


skewed = pytest.mark.parametrize(
    ("further", "reason"),
    [
        ((ALPHA, 0.5), "alpha:illness"),
        ((ENTROPY_L, 2.0), "entropy_l:illness"),
        ((RECURSIVE, (1.5, 2.0)), "recursive:illness"),
        ((T, 0.2), "t:illness"),
        ((BETA, 0.4), "beta:illness"),
    ],
)


@skewed
@of_each_algorithm
def test_of_a_skewed_stream_what_can_leaves_and_the_rest_is_suppressed_under_promise_and_column(
    algorithm: Algorithm, further: Any, reason: str
) -> None:
    """Eight in nine have one value, the others another: all of them together break the promise, and some need not."""
    stream = [Row((str(i % 8),), ("b" if i % 9 == 0 else "a", "x", i), i, i) for i in range(108)]
    privacy = Privacy(3, sensitive=sensitive("illness", None, further, references=HALVES))
    outputs, shard = run(algorithm, privacy, stream, 10)
    judge(privacy, stream, outputs)
    assert shard.counters.released > 0
    assert shard.counters.suppressed[reason] > 0


@skewed
def test_a_group_of_a_window_is_not_lost_to_one_that_cannot_be_repaired(further: Any, reason: str) -> None:
    values = "aaaaaaaaabab"  # of which the last four are alike
    stream = [Row(("0246"[i // 4],), (value, "x", i), i, i) for i, value in enumerate(values)]
    privacy = Privacy(4, sensitive=sensitive("illness", None, further, references=HALVES))
    outputs, shard = run(Suhdsa, privacy, stream, 12)
    judge(privacy, stream, outputs)
    assert shard.counters.released == 4
    assert shard.counters.suppressed[reason] == 8


@of_each_algorithm
@pytest.mark.parametrize(("l", "column"), [(2, "illness"), (3, "pay")])
def test_l_of_one_column_asks_nothing_of_the_other(algorithm: Algorithm, l: int, column: str) -> None:  # noqa: E741
    of = POLICY.sensitive.index(column)
    values = [["a", "a"] for _ in range(60)]
    for i in range(60):
        values[i][of] = "abc"[i % 3]
    stream = [Row((str(i % 8),), (*values[i], i), i, i) for i in range(60)]
    outputs, shard = run(algorithm, Privacy(3, sensitive={column: Sensitive(l=l)}), stream, 10)
    assert shard.counters.released > 30
    for out in outputs:
        for kind, start, stop in zip(out.kind, out.offsets, out.offsets[1:], strict=False):
            assert len(set(out.members[of][start:stop])) >= l or kind == REUSED
    _, other = run(algorithm, Privacy(3, sensitive={POLICY.sensitive[1 - of]: Sensitive(l=2)}), stream, 10)
    assert other.counters.released == 0
    assert other.counters.suppressed[f"too_little_diversity:{POLICY.sensitive[1 - of]}"] > 0


def test_who_has_several_values_counts_for_the_commonest() -> None:
    # Of A to C one value each may be picked such that all have a; once one of them lacks it, of two only.
    rows = [("A", "a"), ("A", "b"), ("B", "a"), ("B", "c"), ("C", "a"), ("C", "d")]
    stream = [Row(("0",), (value, "x", i), who, i) for i, (who, value) in enumerate(rows)]
    for further in ((ALPHA, 0.9), (ENTROPY_L, 1.1), (RECURSIVE, (100.0, 2.0)), (T, 0.7), (BETA, 2.0)):
        privacy = Privacy(3, sensitive=sensitive("illness", None, further, references=EVEN))
        outputs, shard = run(Mondrian, privacy, stream, 10)
        judge(privacy, stream, outputs)
        assert shard.counters.released == 5
        _, shard = run(Mondrian, Privacy(3), stream, 10)
        assert shard.counters.released == 6


def test_a_column_of_its_own_may_ask_for_less_than_all() -> None:
    own = Privacy(9, 3, models={"alpha": 0.2}, sensitive={"pay": Sensitive(l=1, models={"alpha": 1.0})})
    assert (own.l_of("pay")[0], own.l_of("illness")[0]) == (1, 3)
    assert own.further_of("pay") == ((ALPHA, 1.0, "alpha:pay"),)
    assert own.further_of("illness") == ((ALPHA, 0.2, "alpha"),)
    assert own.in_force == {"k": 9, "l": 3, "alpha": 0.2, "l_pay": 1, "alpha_pay": 1.0}


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (Sensitive(), r"privacy\.sensitive\.pay: has no privacy model"),
        (Sensitive(l=4), r"privacy\.sensitive\.pay\.l: must be from 1 to k \(3\), not 4"),
        (Sensitive(alpha=0.0), r"privacy\.sensitive\.pay\.alpha: must be a number above 0"),
        (Sensitive(entropy_l=3.5), r"privacy\.sensitive\.pay\.entropy_l: must be a number from 1"),
        (
            Sensitive(recursive={"c": 2, "l": 1}),
            r"privacy\.sensitive\.pay\.recursive: must be a mapping such as .*, not c 2, l 1",
        ),
    ],
)
def test_what_cannot_be_promised_of_a_column_is_told_by_field(column: Sensitive, problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        Privacy(3, sensitive={"pay": column})


def test_a_promise_of_a_column_that_is_not_sensitive_is_refused() -> None:
    terms, _ = setting(Castle, Privacy(3, sensitive={"illnes": Sensitive(l=2)}))
    with pytest.raises(PolicyError, match=r"privacy\.sensitive\.illnes: is not a column .*; one of illness, pay"):
        Castle.new(terms, 0, KEY)


def test_omega_forgets_what_was_released_under_other_promises_of_a_column() -> None:
    positions = [i % 8 for i in range(20)] + [i % 2 for i in range(40)]
    stream = [Row((str(place),), ("ab"[i % 2], "xy"[i // 2 % 2], i), i, i) for i, place in enumerate(positions)]
    privacy = Privacy(3, sensitive={"illness": Sensitive(l=2)})
    terms, of = setting(Castle, privacy)
    shard, stored = Castle.new(terms, 0, KEY), StoredShard(b"", {})
    for i in range(0, 60, 5):
        changes = shard.push(of.block(stream[i : i + 5])).changes
        assert changes is not None
        stored = stored.after(changes)
    stricter = ({"illness": Sensitive(l=3)}, {"pay": Sensitive(l=3)}, {"illness": Sensitive(l=2, alpha=0.9)})
    kept_ones = [
        Castle.restored(replace(terms, privacy=replace(privacy, sensitive=sensitive)), stored, "")
        for sensitive in (privacy.sensitive, *stricter)
    ]
    used = [int(shard.arrays.now.omega_used) for shard in kept_ones]  # type: ignore[attr-defined]
    assert used[0] > 0
    assert used[1:] == [0, 0, 0]
