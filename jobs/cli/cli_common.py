"""Common parts of all commands: the program, their first arguments, error reporting, tables and durations."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from crenel.anonymity.model.durations import LONGEST, MINUTE, parse_duration
from crenel.anonymity.model.errors import ConfigError, InputError
from crenel.jobs.cli.savepoint import SavepointError
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
    Path, typer.Argument(metavar="CONFIG", help="A YAML file; see docs/reference/configuration.", dir_okay=False)
]
Configurations = Annotated[
    list[Path],
    typer.Argument(
        metavar="CONFIG...",
        help="A YAML file; several, if the job was restored with other settings: all that it ran with.",
        dir_okay=False,
    ),
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


def table(*columns: str, words: int = 0, **options: Any) -> Table:
    """Return a table without lines: ``words`` columns of text, then columns of figures.

    ``options``: further arguments of ``Table``.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), **options)
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place < words else "right", overflow="fold")
    return made


def grid(rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of texts without a header."""
    made = Table.grid(padding=(0, 2))
    for row in rows:
        made.add_row(*row)
    return made


def indent(console: Console, content: Table | str, below: int = 0) -> None:
    """Print indented below a title; ``below``: empty lines at the end."""
    console.print(Padding(content, (0, 0, below, 2), expand=False))


def in_minutes(milliseconds: float) -> str:
    """Return a duration in minutes, so that durations of a table can be compared."""
    minutes = milliseconds / MINUTE
    return f"{minutes:,.0f} min" if minutes >= 100 else f"{minutes:.3g} min"


def parse_option_duration(text: str) -> int | None:
    """Return the milliseconds of an option such as ``10 min``; None where it is not a duration with a unit."""
    try:
        # A bare number would be milliseconds in a configuration, but many users would expect tuples.
        milliseconds = None if text.strip().isdigit() else parse_duration(text)
    except ValueError:
        return None
    return None if milliseconds is None or milliseconds > LONGEST else milliseconds


@contextmanager
def reported(configuration: Path, *, judges: bool = False) -> Iterator[None]:
    """Convert errors to a message and an exit code, instead of a traceback.

    ``judges``: whether the command judges a run or a source: exit code 1 could then be taken for its verdict, so a
    failure of any kind has the code 2
    """
    failure = 2 if judges else 1
    try:
        yield
    except ConfigError as error:
        end(f"{configuration} is not a valid configuration:{_listed(error.problems)}", 2)
    except SavepointError as error:
        end(f"{configuration} {error.lead} {error.place}:{_listed(error.problems)}", 2)
    except InputError as error:
        end(f"{error}" if error.lead is None else f"{configuration}{error.lead}{error}", 2)
    except JobError as error:
        end(f"{error}\nFlink's logs are in {error.logs}; they may hold values of records.", failure)
    except JavaError as error:
        end(str(error), failure)
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except Exception:
        if not judges:
            raise
        traceback.print_exc()
        end(f"{configuration}: an unexpected error ended the command, and nothing was judged", failure)


def _listed(problems: Sequence[str]) -> str:
    return "".join(f"\n- {problem}" for problem in problems).replace("\n", "\n  ")


def end(message: str, code: int) -> NoReturn:
    """End the program with a message on stderr."""
    typer.echo(f"crenel: {without_passwords(message)}", err=True)
    raise typer.Exit(code)
