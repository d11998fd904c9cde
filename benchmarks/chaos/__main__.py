"""``python -m benchmarks.chaos``: one hundred random kills, and the outputs in spite of them.

Needs Java, Maven (for Kafka and Flink's connector), on Debian ``faketime`` for a clock that jumps, and root for a disk
of a size of its own; a kind that cannot be had here is told and left out.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos import jobs
from benchmarks.chaos.cluster import NotHereError, Survivor
from benchmarks.chaos.jobs import SETTINGS, Feed, OutputFaults, Setting
from benchmarks.measure import Table
from tests.support import broker as brokers
from tests.support.broker import Broker
from tests.support.cluster import job_id, with_settings
from tests.support.launch import Host, running

_ROWS = 40_000
_PROGRESS = 6  # seconds of rows for each kill, so that the last one comes before the end of the input
_CLOCK = (1800, -3600, -600)  # seconds ahead of the machine's clock
_FAR_AHEAD = 86_400  # by more than an hour, a broker refuses what the TaskManager writes


@dataclass
class Disturbance:
    """Results of a kind of disturbance: its number, and the seconds until the job continued, for each."""

    times: int = 0
    seconds: list[float] = field(default_factory=list)


class Chaos:
    """Disturbs jobs on one cluster.

    Parameters
    ----------
    chance : draws which, and when
    """

    def __init__(self, cluster: Survivor, broker: Broker, chance: random.Random) -> None:
        self._cluster, self._broker, self._chance = cluster, broker, chance
        self.kinds: dict[str, Disturbance] = defaultdict(Disturbance)
        self.left_out: dict[str, str] = {}

    def table(self) -> Table:
        """Return a table of disturbances: their number, and the time until the job continued."""
        made = Table("Kills", ["what", "times", "went on again", "seconds, median", "seconds, most"])
        for kind, kind_counts in self.kinds.items():
            seconds = kind_counts.seconds
            made.add(
                kind,
                kind_counts.times,
                len(seconds),
                f"{statistics.median(seconds or [0]):.1f}",
                f"{max(seconds or [0]):.1f}",
            )
        for kind, why in self.left_out.items():
            made.add(kind, 0, 0, why, "")
        return made

    def disturb(self, job: str, *, kafka: bool) -> None:
        """Do one thing to a job that runs, and wait until a checkpoint has completed that began after it."""
        cluster = self._cluster
        now = time.time()
        if cluster.state(job) == "FINISHED":
            raise RuntimeError("the job ended before all was done to it")
        cluster.until(lambda: cluster.is_running(job) and cluster.completed_since(job, now), "checkpoint")
        time.sleep(self._chance.uniform(0, 1.5))
        ways = self._ways(job, kafka=kafka)
        kind = self._drawn([kind for kind in ways if kind not in self.left_out])
        since = time.time()
        self.kinds[kind].times += 1
        try:
            ways[kind]()
        except NotHereError as error:
            self.left_out[kind] = str(error)
            del self.kinds[kind]
            return self.disturb(job, kafka=kafka)
        cluster.until(
            lambda: cluster.is_running(job) and cluster.completed_since(job, since), f"checkpoint after {kind}"
        )
        self.kinds[kind].seconds.append(time.time() - since)
        return None

    def _drawn(self, kinds: list[str]) -> str:
        """Return one of the kinds that were drawn least often."""
        least = min(self.kinds[kind].times for kind in kinds)
        return self._chance.choice([kind for kind in kinds if self.kinds[kind].times == least])

    def _ways(self, job: str, *, kafka: bool) -> dict[str, Callable[[], object]]:
        cluster = self._cluster
        clocks = _CLOCK if kafka else (*_CLOCK, _FAR_AHEAD)
        return {
            "a Python worker": lambda: cluster.until(cluster.kill_worker, "Python worker"),
            "the TaskManager with its workers": self._kill_taskmanager,
            "the TaskManager's Java alone": cluster.kill_java,
            "the JobManager": cluster.kill_jobmanager,
            "a full disk of checkpoints": lambda: cluster.fill_disk(job),
            "the TaskManager's clock jumps": lambda: cluster.set_clock(self._chance.choice(clocks)),
            **({"Kafka's broker": self._kill_broker} if kafka else {}),
        }

    def _kill_taskmanager(self) -> None:
        self._cluster.kill_taskmanager()
        self._cluster.start_taskmanager()

    def _kill_broker(self) -> None:
        self._broker.stop()
        time.sleep(self._chance.uniform(0, 3))
        self._broker.start()


def run(
    setting: Setting, folder: Path, kills: int, chaos: Chaos, cluster: Survivor, broker: Broker, mini: Host
) -> OutputFaults:
    """Run one job with so many kills, and return the faults in its outputs."""
    used = broker if setting.kafka else None
    rate = _ROWS // (_PROGRESS * kills) if kills else 0
    configuration = jobs.configure(setting, folder, _ROWS, used, brokers.connector() if setting.kafka else None)
    feed = Feed(broker, f"{folder.name}-in", jobs.records(_ROWS), rate)
    if setting.kafka:
        feed.start()
    job = _submit(cluster, configuration, 0 if setting.kafka else rate)
    for _ in range(kills):
        chaos.disturb(job, kafka=setting.kafka)
    if setting.kafka:
        feed.hurry.set()
        feed.join()
        # Not by the source's own metric, which stands still once its clock has jumped.
        cluster.until(lambda: broker.behind(f"{folder.name}-in", folder.name) == 0, "end of the topic")
        cluster.drain(job, folder / "savepoints")
        cluster.until(lambda: _counted(folder, broker) >= _ROWS, "end of transactions", 60)
    else:
        cluster.until(lambda: cluster.state(job) == "FINISHED", "end of the job", 900)
    left = jobs.wrong(jobs.published(folder, used), _ROWS, kafka=setting.kafka)
    left.findings += jobs.findings(mini, configuration)
    return left


def _submit(cluster: Survivor, configuration: Path, rate: int) -> str:
    settings = {"python.executable": str(cluster.python)}
    what = ("--config", configuration, *with_settings(configuration, settings))
    done = cluster.ask("paced", *what, CRENEL_TEST_RATE=str(rate))
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return job_id(done)


def _counted(folder: Path, broker: Broker) -> int:
    left = jobs.published(folder, broker)
    return sum(len(left[name]) for name in ("released", "suppressed", "rejected"))


def main() -> int:
    """Print the tables; 1 where something was lost, left twice, or broke a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="how many in all")
    parser.add_argument("--seed", type=int, default=1, help="another one kills other things at other times")
    parser.add_argument("--only", default="", help="jobs whose name has this text")
    parser.add_argument(
        "--skip", type=int, default=0, help="so many of the first jobs, as an earlier run has done them"
    )
    options = parser.parse_args()
    chosen = [setting for setting in SETTINGS if options.only in setting.name][options.skip :]
    root = Path(tempfile.mkdtemp(prefix="crenel-chaos-"))
    for part in ("cluster", "kafka"):
        (root / part).mkdir()
    by_job = Table(
        "Jobs", ["job", "kills", "rows", "lost", "twice", "as an undisturbed run", "too few persons", "broken promises"]
    )
    good = True
    with ExitStack() as stack:
        broker = stack.enter_context(running(Broker(root / "kafka")))
        cluster = stack.enter_context(running(Survivor(root / "cluster")))
        mini = Host()
        stack.callback(mini.stop)
        chaos = Chaos(cluster, broker, random.Random(options.seed))
        try:
            for number, setting in enumerate(chosen):
                kills = options.kills * (number + 1) // len(chosen) - options.kills * number // len(chosen)
                folder = root / f"job-{number}"
                left = run(setting, folder, kills, chaos, cluster, broker, mini)
                same = "not deterministic"
                if setting.deterministic:
                    calm = root / f"calm-{number}"
                    run(setting, calm, 0, chaos, cluster, broker, mini)
                    alike = jobs.published(folder, None) == jobs.published(calm, None)
                    same = "byte for byte" if alike else "other bytes"
                found = ", ".join(left.findings) or 0
                by_job.add(setting.name, kills, left.rows, left.lost, left.twice, same, left.thin, found)
                good &= not (left.lost or left.twice or left.thin or left.findings or same == "other bytes")
                print(f"{setting.name}: {kills} kills, {left.lost} lost, {left.twice} twice, {same}", file=sys.stderr)
        finally:
            print(by_job, chaos.table(), sep="\n")
            print(f"A Python worker outlived its Java by {cluster.orphaned:.1f} s at most; {cluster.stayed} stayed.")
    shutil.rmtree(root)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
