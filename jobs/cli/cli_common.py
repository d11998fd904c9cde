"""Common parts of all commands: the program, their first arguments, and error reporting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from crenel.anonymity.model.errors import InputError
from crenel.jobs.cli.savepoint import SavepointError
from crenel.jobs.config.load import ConfigError
from crenel.jobs.failure import without_passwords
from crenel.jobs.local.java import JavaError
from crenel.jobs.local.logs import JobError

app = typer.Typer(
    name="crenel",
    help="Anonymize a stream of personal records while it flows, on Apache Flink.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Configuration = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="A YAML file; see docs/configuration.md.", dir_okay=False)
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a field, such as privacy.k=20. Repeatable."),
]


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr, before the work starts."""
    for warning in warnings:
        typer.echo(f"crenel: warning: {without_passwords(warning)}", err=True)


def console() -> Console:
    """Return the console for results."""
    # Results hold names and text of the user, which are not markup.
    return Console(markup=False, highlight=False, emoji=False)


@contextmanager
def reported(configuration: Path) -> Iterator[None]:
    """Convert errors to a message and an exit code, instead of a traceback."""
    try:
        yield
    except ConfigError as error:
        end(f"{configuration} is not a valid configuration:{_listed(error.problems)}", 2)
    except SavepointError as error:
        end(f"{configuration} cannot go on from {error.place}:{_listed(error.problems)}", 2)
    except InputError as error:
        end(f"{error}" if error.lead is None else f"{configuration}{error.lead}{error}", 2)
    except JobError as error:
        end(f"{error}\nFlink's logs are in {error.logs}; they may hold values of records.", 1)
    except JavaError as error:
        end(str(error), 1)


def _listed(problems: Sequence[str]) -> str:
    return "".join(f"\n- {problem}" for problem in problems).replace("\n", "\n  ")


def end(message: str, code: int) -> NoReturn:
    """End the program with a message on stderr."""
    typer.echo(f"crenel: {without_passwords(message)}", err=True)
    raise typer.Exit(code)
