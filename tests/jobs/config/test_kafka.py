"""Transactions of sinks get timeouts that brokers allow."""

from __future__ import annotations

import pytest

from crenel.jobs.config.connectors import TIMEOUT, with_timeout
from crenel.jobs.config.delivery import unfit_timeouts
from crenel.jobs.config.start_warnings import timeout_warnings

ONCE = {"connector": "kafka", "sink.delivery-guarantee": "Exactly-Once"}


@pytest.mark.parametrize("connector", ["kafka", "upsert-kafka"])
def test_a_sink_in_transactions_gets_the_timeout_that_brokers_allow(connector: str) -> None:
    once = ONCE | {"connector": connector}
    assert with_timeout(once) == once | {TIMEOUT: "900000"}
    assert with_timeout(once | {TIMEOUT: "60000"})[TIMEOUT] == "60000"


@pytest.mark.parametrize(
    "options", [{"connector": "kafka"}, ONCE | {"connector": "filesystem"}, ONCE | {"sink.delivery-guarantee": "none"}]
)
def test_no_other_sink_gets_one(options: dict[str, str]) -> None:
    assert with_timeout(options) == options


@pytest.mark.parametrize("given", ["", "15 min", "9e5", "-1", "0", "900000.0", str(2**31), "٣"])
def test_what_is_no_number_of_milliseconds_is_refused(given: str) -> None:
    (problem,) = unfit_timeouts({"audit": ONCE | {TIMEOUT: given}, "released": {"connector": "print", TIMEOUT: given}})
    assert problem.startswith(f"sinks.audit.{TIMEOUT}: is not a whole number of milliseconds above 0; 900000")


@pytest.mark.parametrize(
    ("timeout", "interval", "expected"),
    [
        (900_000, 30_000, []),
        (900_000, 840_000, []),
        (900_000, 840_001, ["a transaction is open from one checkpoint"]),
        (89_999, 30_000, ["give 90000 or more"]),
        (900_001, 30_000, ["refuses more than its transaction.max.timeout.ms, 900000 by default, at each start"]),
    ],
)
def test_a_timeout_is_more_than_an_interval(timeout: int, interval: int, expected: list[str]) -> None:
    options = ONCE | {TIMEOUT: str(timeout)}
    assert list(unfit_timeouts({"released": options})) == []
    warnings = list(timeout_warnings({"released": options, "audit": {"connector": "blackhole"}}, interval))
    assert len(warnings) == len(expected)
    for warning, part in zip(warnings, expected, strict=True):
        assert warning.startswith(f"sinks.released.{TIMEOUT}: ")
        assert part in warning
