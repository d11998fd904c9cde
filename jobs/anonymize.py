"""Entry point for a cluster: ``flink run -py jobs/anonymize.py --config CONFIG [--set key=value ...]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from py4j.protocol import Py4JError
from pyflink.java_gateway import get_gateway
from pyflink.util.exceptions import JavaException
from pyflink.util.java_utils import get_field, load_java_class

from crenel.anonymity.model.errors import ConfigError
from crenel.jobs.cli.savepoint import SavepointError, restore_warnings
from crenel.jobs.config.flink_settings import (
    CHECKPOINTING,
    CHECKPOINTS,
    FIXED,
    FOLDERS,
    STATE,
    overridden,
    repeating_settings,
    without_scheme,
)
from crenel.jobs.config.load import load
from crenel.jobs.config.overlaps import find_sinks_in_state
from crenel.jobs.failure import why_failed, why_refused, without_passwords
from crenel.jobs.job_wait import wait
from crenel.jobs.pipeline.build import build
from crenel.jobs.pipeline.environment import cluster_environment
from crenel.jobs.pipeline.sockets import require_token

_REFUSED = 2
"""Exit code where no job was submitted."""

_IN_MEMORY = (
    "Flink keeps checkpoints in the memory of the JobManager: they are lost with it, and the job fails once a shard's "
    "state takes more than 5 MB, which is about 50,000 waiting tuples"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Submit a job, and wait for its end unless ``flink run`` is detached; return the exit code.

    0: submitted, or ended successfully; 1: the job failed; 2: the configuration is not valid.
    """
    parser = argparse.ArgumentParser(prog="anonymize.py", description="Anonymize a stream on a Flink cluster.")
    parser.add_argument("--config", required=True, help="a YAML file that can be read where 'flink run' is called")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="set a field first, such as privacy.k=20"
    )
    options = parser.parse_args(arguments)
    try:
        config = load(options.config, options.set)
        _warn(config.warnings)
        tables = cluster_environment(config.flink)
        # The cluster's file and -D may set options that the configuration leaves open.
        named = (*CHECKPOINTING, *FIXED, *FOLDERS)
        settings = {name: value for name in named if (value := tables.get_config().get(name, ""))}
        problems = [*overridden(settings), *without_scheme(settings), *find_sinks_in_state(config.sinks, settings)] + (
            [] if config.accept_duplicates else [*repeating_settings(settings)]
        )
        if problems:
            raise ConfigError(options.config, problems)
        if not any(tables.get_config().get(name, "") for name in CHECKPOINTS):
            _warn([f"{CHECKPOINTS[0]}: is not set; {_IN_MEMORY}"])
        job = build(tables, config)
        _warn(job.warnings)
        if state := next(filter(None, (tables.get_config().get(name, "") for name in STATE)), None):
            _warn(restore_warnings(state, job.fingerprint))
        client = job.execute()
    except ConfigError as error:
        return _end(f"{options.config} is not a valid configuration:", error.problems, _REFUSED)
    except SavepointError as error:
        return _end(f"{options.config} {error.lead} {error.place}:", error.problems, _REFUSED)
    except (Py4JError, JavaException) as error:
        return _end(f"Flink refuses {options.config}:", [why_refused(error, config)], _REFUSED)
    print(f"Job {client.get_job_id()} was submitted.", flush=True)
    if tables.get_config().get("execution.attached", "false") == "true":
        try:
            wait(client, job.setup, config.counts_event_time)
        except (Py4JError, JavaException) as error:
            return _end("The job failed:", [why_failed(error, job.setup)], 1)
        print("The job has ended.", flush=True)
    return 0


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        print(f"warning: {without_passwords(warning)}", file=sys.stderr, flush=True)


def _end(what: str, problems: Sequence[str], code: int) -> int:
    print(without_passwords("\n  ".join([what, *problems])), file=sys.stderr, flush=True)
    return code


def _without_trace(code: object) -> object:
    """Have ``flink run`` end without a stack trace of its own, as this program has named the cause of a failure."""
    if code:
        require_token()
        client = get_gateway().jvm.org.apache.flink.client
        what = "No job was started" if code == _REFUSED else "The job has failed"
        thrown = client.program.ProgramParametrizationException(f"{what}; the cause is named above.")
        # Flink's own setter takes an exception of a job alone.
        known = load_java_class("org.apache.flink.client.python.PythonEnvUtils")
        if (captured := get_field(known, "capturedJavaException")) is not None:
            captured.set(None, thrown)
    return code


if __name__ == "__main__":
    try:
        ended: object = main()
    except SystemExit as end:  # of argparse
        ended = end.code
    sys.exit(_without_trace(ended))  # type: ignore[arg-type]
