"""Warnings of a program: those of ``crenel check`` for the same settings, once for each object of settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crenel
from crenel import privacy_warnings as texts
from crenel.jobs.config.load import load
from tests.support.ages import write_ages

TABLE = pa.table({"person": ["a", "b", "c", "d"], "age": [1, 2, 3, 4], "at": [1, 2, 3, 4]})
DELAY = crenel.Delay(tuples=2)
KEY = "sixteen bytes 16"
JOB = """
source: {ddl: "CREATE TEMPORARY TABLE source (person STRING, age INT, at BIGINT) WITH ('connector' = 'datagen')"}
sinks: {released: {connector: print}}
accept_duplicates: true
"""


def of(folder: Path, **others: Any) -> crenel.Settings:
    base = crenel.Settings(
        policy=crenel.Policy(subject="person", event_time="at", quasi_identifiers={"age": crenel.Numeric((0, 99))}),
        privacy=crenel.Privacy(k=2),
        algorithm=crenel.Castle(DELAY),
        subject_key=KEY,
        folder=folder,
    )
    return replace(base, **others)


def noisy(**others: Any) -> crenel.SamplingAndNoise:
    return crenel.SamplingAndNoise(**{"sample_rate": 0.9, "phi": 50, **others})


def cells(folder: Path, **others: Any) -> crenel.Settings:
    write_ages(folder / "cells.yaml", 50)
    own = crenel.Cells(partition=folder / "cells.yaml", epsilon=100, delta=0.5, sample_rate=0.6)
    algorithm = replace(own, **others.pop("cells", {}))
    return of(folder, algorithm=algorithm, privacy=crenel.Privacy(k=3), **others)


def unlearned(folder: Path) -> crenel.Settings:
    made = cells(folder)
    text = (folder / "cells.yaml").read_text(encoding="utf-8")
    (folder / "cells.yaml").write_text(text.replace("epsilon: 0\n", ""), encoding="utf-8")
    return replace(made)


def coded(folder: Path, persons: crenel.Persons | None) -> crenel.Settings:
    pseudonym = crenel.Pseudonym("code", "stream", accept_linkable=persons is None)
    policy = replace(of(folder).policy, pseudonym=pseudonym)
    privacy = crenel.Privacy(k=2, persons=persons)
    return of(
        folder, policy=policy, privacy=privacy, algorithm=crenel.Nearest(crenel.Delay(tuples=2, event_time="1 d"))
    )


def within(folder: Path, **others: Any) -> crenel.Settings:
    policy = crenel.Policy(
        subject="person", quasi_identifiers={"age": crenel.Numeric((0, 99))}, noised={"at": crenel.Noised((0, 99), 1)}
    )
    privacy = crenel.Privacy(k=2, noise_within_release=crenel.NoiseWithinRelease(epsilon=1, **others))
    return of(folder, policy=policy, privacy=privacy, seed=1)


LASTING = crenel.Persons(guarantee="lasting", horizon="40 d")
CASES: dict[str, tuple[Callable[[Path], crenel.Settings], set[str]]] = {
    "none": (of, set()),
    "reuse": (lambda at: of(at, algorithm=crenel.Castle(DELAY, reuse_limit=5)), {"castle.reuse_limit: is 5"}),
    "reuse, nearest": (lambda at: of(at, algorithm=crenel.Nearest(DELAY, reuse_limit=5)), {"nearest.reuse_limit: is"}),
    "alone": (
        lambda at: of(at, algorithm=crenel.Castle(DELAY, suppression="generalize")),
        {"castle.delay.jitter: is 0"},
    ),
    "seed": (lambda at: of(at, sampling_and_noise=noisy(), seed=1), {texts.PREDICTABLE}),
    "seed within": (within, {texts.PREDICTABLE}),
    "unsampled": (lambda at: of(at, sampling_and_noise=noisy(sample_rate=1)), {texts.UNSAMPLED}),
    "observed": (lambda at: of(at, sampling_and_noise=noisy(range="observed")), {texts.OBSERVED_RANGE}),
    "least": (lambda at: within(at, least=0), {texts.PREDICTABLE, texts.WITHOUT_LEAST}),
    "linked": (lambda at: coded(at, None), {texts.LINKED}),
    "outlasting": (lambda at: coded(at, LASTING), {texts.OUTLASTING}),
    "cells": (lambda at: cells(at, seed=1), {texts.PREDICTABLE}),
    "cells, learned": (unlearned, {"cells.partition: was learned without differential privacy"}),
    "cells, noisy": (
        lambda at: cells(at, cells={"release": "noisy", "sample_rate": None}),
        {"cells.release: noisy publishes synthetic records"},
    ),
    "no key": (lambda at: of(at, subject_key=None), {texts.UNKEYED}),
    "short key": (lambda at: of(at, subject_key="short"), {texts.SHORT_KEY}),
}
OF_JOBS = {texts.DUPLICATES, texts.UNKEYED_CHAIN, texts.SHORT_CHAIN_KEY, texts.FORGETFUL, texts.SPENT_ANEW}
"""Warnings about what a program does not have: exactly-once sinks, the chain of the audit log, and epochs of state."""


def warned(action: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    assert {warning.filename for warning in caught} <= {__file__}  # the line of the program, and none of Crenel
    assert all(warning.category is crenel.PrivacyWarning for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("name", CASES)
def test_a_program_warns_once_of_each_setting_that_check_warns_of(name: str, tmp_path: Path) -> None:
    make, wanted = CASES[name]
    made = make(tmp_path)
    (tmp_path / "job.yaml").write_text(
        made.to_yaml().replace("${CRENEL_SUBJECT_KEY}", "short" if name == "short key" else "sixteen bytes 16") + JOB
    )
    checked = [text for text in load(tmp_path / "job.yaml").warnings if text != texts.DUPLICATES]
    assert all(any(text.startswith(begin) for text in checked) for begin in wanted)
    of_state = [text for text in checked if text in (texts.UNKEYED, texts.SHORT_KEY)]
    of_all = [text for text in checked if text not in of_state]
    assert warned(lambda: crenel.anonymize(TABLE, made)) == of_all
    assert warned(lambda: crenel.anonymize(TABLE, made)) == []
    another = replace(made)
    stream: crenel.Stream

    def opened() -> None:
        nonlocal stream
        stream = crenel.open_stream(another)

    assert warned(opened) == of_all
    assert warned(lambda: [stream.push(TABLE.slice(row, 1)) for row in range(4)]) == []
    assert warned(lambda: stream.snapshot()) == of_state
    assert warned(lambda: [stream.snapshot(), crenel.open_stream(another, snapshot=stream.snapshot())]) == []


def test_each_warning_of_settings_is_of_programs_or_of_jobs_alone() -> None:
    all_texts = {text for name, text in vars(texts).items() if name.isupper() and isinstance(text, str)}
    shown = {text for _, wanted in CASES.values() for text in wanted}
    assert all_texts == (all_texts & shown) | OF_JOBS


def test_a_warning_that_is_an_error_is_raised_each_time(tmp_path: Path) -> None:
    made = of(tmp_path, algorithm=crenel.Castle(DELAY, reuse_limit=5))
    with warnings.catch_warnings():
        warnings.simplefilter("error", crenel.PrivacyWarning)
        for _ in range(2):
            with pytest.raises(crenel.PrivacyWarning, match=r"castle\.reuse_limit"):
                crenel.anonymize(TABLE, made)


def test_a_stream_warns_of_late_and_of_rejected_records() -> None:
    """Times out of order, or one far ahead, leave no time to wait, whatever the delay."""
    settings = crenel.Settings(
        policy=crenel.Policy(subject="person", event_time="at", quasi_identifiers={"age": crenel.Numeric((0, 99))}),
        privacy=crenel.Privacy(k=2),
        algorithm=crenel.Nearest(crenel.Delay(event_time="1 h")),
        subject_key=KEY,
        seed=1,
    )
    hours = [i * 600_000 for i in range(200)]
    table = pa.table({"person": [str(i % 50) for i in range(200)], "age": [i % 90 for i in range(200)], "at": hours})
    assert crenel.anonymize(table, settings).summary.warnings == ()
    far = pa.table(
        {**dict(zip(table.column_names, table.columns, strict=True)), "at": [*hours[:5], 4 * 10**12, *hours[6:]]}
    )
    for late in (table.take(list(reversed(range(200)))), far):
        (warning,) = crenel.anonymize(late, settings).summary.warnings
        assert warning.startswith("nearest.delay.event_time: ")
        assert warning in str(crenel.why(late, settings))
        limited = replace(settings, policy=replace(settings.policy, event_time_limit="1 d"))
        assert (crenel.anonymize(late, limited).summary.warnings == ()) == (late is far)
    old = table.set_column(1, "age", pa.array([i % 90 + 80 for i in range(200)]))
    (warning,) = crenel.anonymize(old, settings).summary.warnings
    assert warning.startswith("policy.quasi_identifiers.age: ")
    assert warning.endswith("outside the domain; correct their unit, or declare a wider domain")
