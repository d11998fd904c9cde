"""Jobs on a standalone cluster, scraped by a real Prometheus as docs/how-to/monitor.md has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.people import configure, write
from tests.support.prometheus import Prometheus, needs_prometheus, scraping
from tests.support.queries import OF_KAFKA, all_expressions, names, panels, patterns

pytestmark = [pytest.mark.cluster, needs_prometheus]

ROWS = 40_000
RATE = 1500  # rows a second of each reader
SLOW = 100  # longer than an alert takes to fire
WAYS = ("window by subject", "nearest by regions", "castle by subject")
CRENEL = "flink_taskmanager_job_task_operator_crenel_"
LASTING = "l: 2, persons: {guarantee: lasting, moved: count}}"
BY_REGIONS = ", by: regions, regions: regions.yaml"
SILENT = {
    "  subject: person": "  subject: person\n  event_time: ts",
    "domain: [0, 99]": "domain: [0, 79]",  # a fifth of the rows is rejected
    "{delay: {tuples: 2000, jitter: 0.5}, reuse_limit: 1000}": "{delay: {event_time: 10 s}}",
    ", by: regions, regions: regions.yaml": "",
    "illness STRING)": "illness STRING, ts AS TO_TIMESTAMP_LTZ(id, 3), "
    "WATERMARK FOR ts AS CASE WHEN id < 0 THEN ts END)",
    "town, illness FROM": "town, illness, ts FROM",
}
"""Changes of a configuration after which no watermark comes."""

PROVOKED = {
    "CrenelNoWatermark": {},
    "CrenelRejectsMany": {"[30m:]": "[10s:1s]", "[30m]": "[10s]"},
    "CrenelWaitsPastDelay": {"+ 900": ""},
    "CrenelWatermarkStandsStill": {"> 900": "> 9"},
    "CrenelCompiles": {"> 10\n": ">= 0\n"},
}
"""Alerts of that job, with what is shortened in their expressions; promtool tries them as they are."""


def test_every_metric_that_the_dashboard_and_the_alerts_name_exists_and_adds_up(
    cluster: Cluster, tmp_path: Path
) -> None:
    people = write(tmp_path, (i % (ROWS // 3) for i in range(ROWS)))
    shown: set[str] = set()
    of_all = {panel["title"] for panel in panels(are_open=True)}
    with scraping(tmp_path, cluster.reporters) as prometheus:
        for way in WAYS:
            configuration = configure(people, tmp_path / way.split()[0], way=way)
            if way.startswith("nearest"):
                text = configuration.read_text(encoding="utf-8").replace("l: 2}", LASTING)
                configuration.write_text(text.replace(BY_REGIONS, ""), encoding="utf-8")
            job = cluster.submit(configuration, rate=RATE)
            cluster.wait(of(prometheus, job, "sum(released) > 3000"), "releases")
            # A scrape of Prometheus may fall in the middle of an update, but not each time.
            cluster.wait(
                of(prometheus, job, "sum(tuples_in) - sum(released) - sum(ALL_suppressed_) - sum(buffered) == 0"),
                "balance",
            )
            formed = " - ".join(f"sum(releases_{kind})" for kind in ("cluster", "merged", "split"))
            cluster.wait(of(prometheus, job, f"sum(ALL_classes_from_) - {formed} == 0"), "sum of classes")
            assert of(prometheus, job, "min(least_class_size) > 0")()
            assert of(prometheus, job, "max(k) == 8")()
            assert of(prometheus, job, "sum(rejected_bad_type) == 0")()
            now = {where for where, expression in all_expressions() if prometheus.value(expression) is not None}
            assert of_all - now == set(), way
            shown |= now
            cluster.cancel(job)
        known = prometheus.names()
    for where, expression in all_expressions():
        assert names(expression) - known <= OF_KAFKA, where
        for pattern in patterns(expression):
            assert any(re.fullmatch(pattern, name) for name in known), where
    assert {where for where, _ in all_expressions() if not where.startswith("Crenel")} - shown == set()


def test_a_job_without_watermarks_provokes_the_alerts_and_has_short_labels(cluster: Cluster, tmp_path: Path) -> None:
    configuration = configure(write(tmp_path, range(ROWS)), tmp_path / "silent", way="nearest by regions")
    text = configuration.read_text(encoding="utf-8")
    for before, after in SILENT.items():
        assert before in text
        text = text.replace(before, after)
    configuration.write_text(text, encoding="utf-8")
    expressions = dict(all_expressions())
    with scraping(tmp_path, cluster.reporters) as prometheus:
        job = cluster.submit(configuration, rate=SLOW)
        for alert, shorter in PROVOKED.items():
            expression = expressions[alert]
            for before, after in shorter.items():
                assert before in expression
                expression = expression.replace(before, after)
            cluster.wait(lambda text=expression: prometheus.value(text) is not None, alert)
        assert of(prometheus, job, "max(released) == 0")()
        firing = 'ALERTS{alertname="CrenelNoWatermark",alertstate="firing"}'
        cluster.wait(lambda: prometheus.value(firing) is not None, "the alert itself")
        operators = prometheus.get("label/operator_name/values")
        assert prometheus.get("label/task_name/values") == []
        cluster.cancel(job)
    assert "nearest" in operators
    assert max(map(len, operators)) < 40, operators
    assert not [name for name in operators if re.search(r"_\d+_", name)]


def of(prometheus: Prometheus, job: str, expression: str) -> Callable[[], bool]:
    """Return whether a condition holds of the metrics of a job; ``ALL_``: all whose names begin so."""
    named = re.sub(r"\((?!ALL_)(\w+)\)", rf'({CRENEL}\1{{job_id="{job}"}})', expression)
    named = re.sub(r"\(ALL_(\w+)\)", rf'({{__name__=~"{CRENEL}\1.+",job_id="{job}"}})', named)
    return lambda: prometheus.value(named) is not None
