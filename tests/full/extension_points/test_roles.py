"""Streams of rows of every role that bring about everything that their law is about."""

from __future__ import annotations

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.model.outcomes import LINKABLE
from tests.extension_points.test_roles import Case, cases, judge, of_each_algorithm, run
from tests.support.example_counts import reach


@of_each_algorithm
def test_the_streams_of_this_law_bring_about_everything(algorithm: Algorithm) -> None:
    def brings_about(case: Case) -> bool:
        done = run(algorithm, case)
        released = {number for out in done.outputs for number in out.members[-1]}
        odd = any(row[a.name] is None for row in done.rows if row["row"] in released for a in case.policy.categorical)
        linkable = done.counters.suppressed.get(LINKABLE, 0)
        return odd and linkable > 0 and len(done.rows) < sum(map(len, case.batches))

    found = reach(cases(levels=algorithm is Ola), brings_about)
    judge(found, run(algorithm, found))
