"""Flink environment of a job: defaults of Crenel, which the configuration and the command line override."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from zipfile import is_zipfile

from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.config.flink_settings import FIXED, STATE, UTC, ZONE
from crenel.jobs.config.paths import local_path
from crenel.jobs.local.flags import prepare_java
from crenel.jobs.local.stop import folder_until_exit
from crenel.jobs.local.worker import keep_pool_private, keep_tracebacks_out_of_terminal
from crenel.jobs.pipeline.sockets import UnknownChannelsError, bind_channels, require_token, write_jar

_OF_MACHINE = "default"
"""Value of ``ZONE`` for the zone of the machine."""

JARS = ("pipeline.jars", "pipeline.classpaths")
"""Settings of Flink that list jars. ``flink run`` sets them to Flink's own jar for Python."""

DEFAULTS: Mapping[str, str] = {
    "pipeline.name": "crenel",
    **FIXED,
    # Rows hold arrays, and copying them between chained operators would cost more than the operators.
    "pipeline.object-reuse": "true",
    # One block per shard and Arrow batch: larger ones cost less. ``crenel.jobs.pipeline.bundle_timing`` bounds latency.
    "python.fn-execution.arrow.batch.size": "20000",
    "python.fn-execution.bundle.size": "100000",
    # A file source reads this much at a time, and holds several such pieces as rows, which Java's collector copies
    # repeatedly. At Flink's default of 1 MB that took a quarter of the time of a row. A cluster needs this setting in
    # its own configuration.
    "source.file.stream.io-fetch-size": "64 kb",
    # Stored state is read once, at a restore: PyFlink would cache the last entries, and the keys of all.
    "python.map-state.read-cache-size": "0",
    # An entry may have 2 MB, and one batch of a restore must stay far below the 2 GB limit of a message.
    "python.map-state.iterate-response-batch-size": "100",
    # PyFlink takes the UTC wall clock of a TIMESTAMP_LTZ for local time.
    ZONE: "UTC",
    # Generated UIDs let sources and sinks find their state in a savepoint.
    "table.exec.uid.generation": "ALWAYS",
    # Sinks publish at checkpoints, exactly once.
    "execution.checkpointing.interval": "30 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    # Only where checkpoints are unaligned. Without a timeout Flink takes them before all that waits for a task, also
    # before the event that gives a source its splits: a restore of such a checkpoint would lose these.
    "execution.checkpointing.aligned-checkpoint-timeout": "1 ms",
    # A job that restarts forever can only be canceled, and its last checkpoint holds the buffered tuples.
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}

LOOPBACK: Mapping[str, str] = {
    # Flink's servers of a local run serve this process alone, without authentication.
    "jobmanager.bind-host": "localhost",
    "taskmanager.bind-host": "localhost",
    "rest.bind-address": "localhost",
    "web.submit.enable": "false",
    "web.cancel.enable": "false",
    "web.rescale.enable": "false",
}


def instants_elsewhere(tables: StreamTableEnvironment, instants: Iterable[str]) -> Iterator[str]:
    """Yield a problem where Python reads columns of type TIMESTAMP_LTZ and the session's zone is not UTC.

    PyFlink takes the UTC time of an instant for local time, which the zone may not have, or may have twice.
    """
    used = tables.get_config()
    # ``get_local_timezone`` ignores the settings of the environment, and the setting may stand for the machine's zone.
    zone = named if (named := used.get(ZONE, _OF_MACHINE)) != _OF_MACHINE else used.get_local_timezone()
    zone = get_gateway().jvm.java.time.ZoneId.of(zone).normalized().getId()
    name = next(iter(instants), None)
    if name is not None and zone not in UTC:
        yield (
            f"flink.{ZONE}: is not UTC, and PyFlink takes the UTC time of the column {name!r}, a TIMESTAMP_LTZ, "
            "for local time; set it to UTC"
        )


def local_environment(settings: Mapping[str, str], *, checkpoints: bool = True) -> StreamTableEnvironment:
    """Create a mini-cluster in this process; ``settings`` are Flink's and override the defaults.

    ``checkpoints``: whether to take checkpoints, and to resume from one, as the settings say.

    Raises
    ------
    crenel.jobs.local.java.JavaError
        No Java 17 or newer was found.
    ConfigError
        A jar that the settings name does not exist.
    """
    prepare_java()
    prepare_gateway()
    local = {"python.executable": sys.executable, "python.client.executable": sys.executable}
    keep_pool_private()
    keep_tracebacks_out_of_terminal()
    try:
        bind_channels()
    except UnknownChannelsError as error:
        _warn_of_channels(error)
    settings = {**settings, **jars(settings, {})}
    configuration = Configuration()
    for key, value in {**DEFAULTS, **LOOPBACK, **local, **settings}.items():
        if checkpoints or not (key.startswith("execution.checkpointing.") or key in STATE):
            configuration.set_string(key, value)
    return StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(configuration))


def cluster_environment(settings: Mapping[str, str]) -> StreamTableEnvironment:
    """Return the environment that ``flink run`` prepared.

    ``settings`` override the command line's ``-D`` and the cluster's file, which override the defaults. Jars are added
    to those that are there.

    Raises
    ------
    ConfigError
        A jar that the settings name does not exist.
    """
    require_token()
    prepare_gateway()
    environment = StreamExecutionEnvironment.get_execution_environment()
    present = environment._j_stream_execution_environment.getConfiguration()
    listed = {name: present.getString(name, "") for name in JARS}
    settings = {**settings, **jars(settings, listed)}
    settings[JARS[0]] = _with_bound_channels(settings.get(JARS[0], listed[JARS[0]]))
    configuration = Configuration()
    for key, value in {**{k: v for k, v in DEFAULTS.items() if not present.containsKey(k)}, **settings}.items():
        configuration.set_string(key, value)
    environment.configure(configuration)
    return StreamTableEnvironment.create(environment)


def prepare_gateway() -> None:
    """Prepare Python's connections to Java for a job; repeated calls change nothing."""
    remember_java_names()
    keep_java_threads(get_gateway()._gateway_client)


class _Connections(threading.local):
    """The free connections of each thread, in the place of py4j's, which all threads share."""

    def __init__(self) -> None:
        self._free: list[Any] = []

    def __len__(self) -> int:
        return len(self._free)

    def append(self, connection: Any) -> None:
        self._free.append(connection)

    def pop(self) -> Any:
        return self._free.pop()


def keep_java_threads(client: Any) -> None:
    """Have each thread of Python keep its connection to Java, which serves each connection by a thread of its own.

    py4j lends a connection to any thread that asks, such as one in which Python collects garbage. A thread that then
    continues on another connection would miss what Java knows of the thread before: the jars of the job ("no factory
    for 'kafka'"), and the state of Flink's planner (a NullPointerException: metadataHandlerProvider).

    Parameters
    ----------
    client : py4j's client of the gateway; its free connections become those of the calling thread
    """
    if not isinstance(client.deque, _Connections):
        connections = _Connections()
        for connection in client.deque:
            connections.append(connection)
        client.deque = connections


@cache
def remember_java_names() -> None:
    """Have Python ask Java once for each name of a class or a package.

    PyFlink writes the full name of a class at each use, and py4j asks Java for each part of it again. Java then looks
    for a class of that name in all jars. A job asked 2,800 times for 73 names, of 7,800 requests in all.
    """
    for view in (JVMView, JavaPackage):
        view.__getattr__ = _remembering(view.__getattr__)


def _remembering(ask: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def found(owner: Any, name: str) -> Any:
        answer = ask(owner, name)
        # Java answers with a package where it knows no class, and a later jar may hold the class.
        if isinstance(answer, JavaClass) or (isinstance(answer, JavaPackage) and name[:1].islower()):
            vars(owner)[name] = answer
        return answer

    return found


def _with_bound_channels(listed: str) -> str:
    """Prepend a jar to the jars of a job, in which Beam's servers bind to loopback."""
    jar = folder_until_exit("crenel-channels-") / "crenel-channels.jar"
    try:
        write_jar(jar)
    except UnknownChannelsError as error:
        _warn_of_channels(error)
        return listed
    return ";".join([jar.as_uri(), *Configuration.parse_list_value(listed)])


def _warn_of_channels(error: UnknownChannelsError) -> None:
    print(
        f"warning: Beam's channels to Python listen on all addresses of this machine, as {error}; "
        "close the ports to other machines by a firewall",
        file=sys.stderr,
        flush=True,
    )


def jars(settings: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of ``JARS`` for a job: present jars, followed by those of the configuration.

    Parameters
    ----------
    settings : of the configuration; paths are relative to the working directory, and any URL is valid
    present : values of these settings in the environment

    Raises
    ------
    ConfigError
        A local file does not exist, or is not a jar.
    """
    problems: list[str] = []
    found: dict[str, str] = {}
    for name in JARS:
        if name in settings:
            before = Configuration.parse_list_value(present.get(name, ""))
            given = list(_urls(name, settings[name], problems))
            found[name] = ";".join(dict.fromkeys([*before, *given]))
    if problems:
        raise ConfigError("flink", problems)
    return found


def _urls(name: str, value: str, problems: list[str]) -> Iterator[str]:
    for text in map(str.strip, Configuration.parse_list_value(value)):
        path = local_path(text)
        if path is not None and not path.exists():  # Java reads a URL, in which '%20' is a space
            path = Path(unquote(str(path)))
        if path is None:
            yield text
        elif not text or not (path.is_file() if name == JARS[0] else path.exists()):
            problems.append(
                f"flink.{name}: {text or 'an empty path'} is not there; name each jar by its path or as "
                "file:///path/to.jar, with ';' between two"
            )
        elif path.is_file() and not is_zipfile(path):
            problems.append(
                f"flink.{name}: {text} is not a jar, as it is no ZIP archive; name the .jar file itself, such as "
                "flink-sql-connector-kafka-VERSION.jar from Maven (docs/how-to/deploy.md)"
            )
        else:
            yield path.absolute().as_uri()
