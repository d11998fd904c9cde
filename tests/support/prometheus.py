"""A Prometheus that scrapes for as long as a block lasts."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import free_port
from tests.support.queries import ALERTS, SCRAPE

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="Prometheus is not installed (on Debian: apt install prometheus)",
)


class Prometheus:
    """Answers to queries.

    Parameters
    ----------
    port : where it listens
    """

    def __init__(self, port: int) -> None:
        self._base = f"http://localhost:{port}"

    def ready(self) -> bool:
        """Return whether it answers queries."""
        try:
            with urllib.request.urlopen(f"{self._base}/-/ready", timeout=5):
                return True
        except (OSError, urllib.error.URLError):
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """Return an answer of its interface; raise for a wrong query."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self._base}/api/v1/{path}?{query}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error)["error"]) from None

    def names(self) -> set[str]:
        """Return all metrics that it has scraped."""
        return set(self.get("label/__name__/values"))

    def value(self, expression: str) -> float | None:
        """Return the current value of an expression of one value; None: nothing."""
        result = self.get("query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else None

    def wait(self, done: Callable[[], bool], what: str, seconds: float = 120) -> None:
        """Wait for something to come true; fails where it takes too long."""
        until = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < until, f"no {what} after {seconds} s"
            time.sleep(0.2)


@contextmanager
def scraping(folder: Path, ports: Sequence[int]) -> Iterator[Prometheus]:
    """Yield a Prometheus of the configuration and the rules that come with Crenel, every second, of these ports."""
    content = yaml.safe_load(SCRAPE.read_text(encoding="utf-8"))
    content["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    content["rule_files"] = [str(ALERTS)]
    content["scrape_configs"][0]["static_configs"][0]["targets"] = [f"localhost:{port}" for port in ports]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    port = free_port()
    command = (
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=localhost:{port}",
    )
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        made = Prometheus(port)
        made.wait(made.ready, f"Prometheus; see {folder / 'prometheus.log'}")
        yield made
    finally:
        process.terminate()
        process.wait(60)
