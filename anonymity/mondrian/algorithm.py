"""Mondrian as others know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anonymity.algorithm import Algorithm, Setting, Shard, Terms, add_algorithm
from anonymity.batch.stored import ENTRIES, begun, read
from anonymity.batch.windows import SECTION, SETTINGS, ClosedBy
from anonymity.compiled.warm import run_through
from anonymity.mondrian.parameters import MondrianParameters
from anonymity.mondrian.shard import Mondrian
from anonymity.policy import Policy, Privacy
from state.batch import BatchState
from state.stored import Stored


def _new(terms: Terms, number: int, key: bytes) -> Shard:
    return Mondrian(terms, begun(terms, number, key))


def _restored(terms: Terms, stored: Stored, where: str) -> Shard:
    return Mondrian(terms, read(terms, stored, where))


def _compile() -> None:
    run_through(MONDRIAN, MondrianParameters(ClosedBy(tuples=32)))


def _problems(policy: Policy, privacy: Privacy, parameters: MondrianParameters) -> Iterator[str]:
    yield from parameters.problems(policy, privacy)


def _tell(mondrian: MondrianParameters) -> Iterator[tuple[str, str]]:
    yield from mondrian.window.tell()
    yield "cut", mondrian.cut


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "windows", f"{counts['windows']:,}", "cut by Mondrian"


MONDRIAN = add_algorithm(
    Algorithm(
        name="mondrian",
        parameters=MondrianParameters,
        settings=(
            *SETTINGS,
            Setting("cut", "cut", "choice", "'loss' or 'widest'", choices=("loss", "widest")),
        ),
        sections=(SECTION,),
        example="{window: {tuples: 1000}}",
        new=_new,
        restored=_restored,
        state=("batch", BatchState),
        entries=ENTRIES,
        problems=_problems,
        counted={
            "tuples_in": "tuples let in",
            "released": "tuples released",
            "windows": "windows closed",
        },
        gauges={},
        tell=_tell,
        summary=_summary,
        compile=_compile,
    )
)
