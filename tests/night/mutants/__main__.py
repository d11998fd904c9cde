"""A hundred small faults, each of which the tests should notice: ``make mutants``.

It takes up to an hour, so it is no part of the gate. docs/project/development.md says when to run it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.night.mutants.rules import Mutant
from tests.night.mutants.runner import KILLED, SURVIVED, TIMEOUT, Result, Runner
from tests.night.mutants.selection import QUOTAS, ImportGraph, choose, plan
from tests.support.launch import ROOT


def main() -> int:
    """Try the mutants; 1 where one survives that was killed in the results to compare with."""
    parser = argparse.ArgumentParser(prog="python -m tests.night.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="choose other mutants (default: 0)")
    parser.add_argument("--first", type=int, metavar="N", help="try only the first N mutants")
    parser.add_argument("--seconds", type=float, default=60, help="processor time of tests per mutant (default: 60)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants side by side (default: 2)")
    parser.add_argument(
        "--results", type=Path, default=Path("mutants.json"), help="file to write (default: mutants.json)"
    )
    parser.add_argument("--against", type=Path, help="results to compare with; tests that killed there run first")
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    options = parser.parse_args()
    if options.against and options.against.resolve() == options.results.resolve():
        parser.error("--against and --results name the same file")
    mutants = choose(ROOT, options.seed)[: options.first]
    if options.list:
        print(*(f"{mutant.file}:{mutant.line}: {mutant.rule}: {mutant.text}" for mutant in mutants), sep="\n")
        return 0
    before = results_of(options.against) if options.against else {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    runner = Runner()
    pool = ThreadPoolExecutor(options.jobs)
    results: dict[str, Any] = {}
    try:
        graph = ImportGraph(ROOT)
        tests = {mutant.file: graph.tests_of(mutant.file) for mutant in mutants}
        seconds, failed = runner.baseline(
            ROOT, sorted({file for files in tests.values() for file in files}), options.jobs
        )
        print(
            f"{len(seconds)} tests pass without a mutant, in {sum(seconds.values()):.0f} s of the processor", flush=True
        )
        for test in failed:
            print(f"fails without a mutant, and is left out: {test}", flush=True)

        def attempt(mutant: Mutant) -> Result:
            first = [before[mutant.key]["test"]] if mutant.key in before else []
            return runner.run(mutant, plan(mutant, tests[mutant.file], seconds, options.seconds, first), seconds)

        waiting = {pool.submit(attempt, mutant): mutant for mutant in mutants}
        for done in as_completed(waiting):
            mutant, result = waiting[done], done.result()
            results[mutant.key] = asdict(mutant) | asdict(result)
            options.results.write_text(
                json.dumps({"seed": options.seed, "mutants": results}, indent=1), encoding="utf-8"
            )
            print(f"{len(results):3} {result.outcome:8} {result.seconds:4.0f} s  {mutant.key}", flush=True)
    finally:
        runner.stop()
        pool.shutdown(cancel_futures=True)
        runner.remove()
    print(summary(results))
    if options.against:
        print(comparison(results, before))
    return int(bool(lost(results, before)))


def results_of(file: Path) -> dict[str, Any]:
    """Return the results of a file by the keys of mutants."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["mutants"]
    return found


def summary(results: Mapping[str, Any]) -> str:
    """Return a table of outcomes and the survivors, as Markdown."""
    lines = ["", f"| folder | mutants | {KILLED} | {TIMEOUT} | {SURVIVED} |", "| --- | --- | --- | --- | --- |"]
    for folder, compiled in QUOTAS:
        own = [each for each in results.values() if _belongs(each, folder, compiled)]
        name = f"`{folder}/`" + (", compiled" if compiled else "")
        lines.append(_row(name, own))
    lines.append(_row("all", list(results.values())))
    lines += ["", "| survivor | line | rule | new | tests |", "| --- | --- | --- | --- | --- |"]
    for each in sorted(results.values(), key=lambda each: (each["file"], each["line"])):
        if each["outcome"] == SURVIVED:
            place, text, new = f"{each['file']}:{each['line']}", _cell(each["text"]), _cell(each["new"])
            lines.append(f"| `{place}` | `{text}` | {each['rule']} | `{new}` | {each['tests']} |")
    return "\n".join(lines)


def lost(results: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return the mutants that survive and did not before."""
    return [
        key
        for key, each in results.items()
        if each["outcome"] == SURVIVED and key in before and before[key]["outcome"] != SURVIVED
    ]


def comparison(results: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Return which mutants survive that were killed before, and how many were not tried both times."""
    found = lost(results, before)
    lines = ["", f"{len(found)} mutants survive that were killed before"]
    lines += [f"{key}\n    killed before by {before[key]['test'] or 'an error'}" for key in found]
    new, gone = len(results.keys() - before.keys()), len(before.keys() - results.keys())
    if new or gone:
        lines.append(f"not compared: {new} mutants that were not tried before, {gone} that were not tried now")
    return "\n".join(lines)


def _belongs(result: Mapping[str, Any], folder: str, compiled: bool) -> bool:
    return bool(result["file"].startswith(f"{folder}/") and result["compiled"] == compiled)


def _row(name: str, results: Sequence[Mapping[str, Any]]) -> str:
    count = Counter(each["outcome"] for each in results)
    return f"| {name} | {len(results)} | {count[KILLED]} | {count[TIMEOUT]} | {count[SURVIVED]} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:100]


if __name__ == "__main__":
    sys.exit(main())
