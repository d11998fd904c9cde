"""Progress bar of commands, on standard error where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Bar:
    """A progress bar with a description, and a count in words."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    @property
    def is_shown(self) -> bool:
        """Whether standard error is a terminal."""
        return not self._progress.disable

    def update(self, description: str, done: int, total: int | None, count: str) -> None:
        """Show the steps that are done; ``total``: None where it is unknown."""
        self._progress.update(self._task, description=description, completed=done, total=total, count=count)


@contextmanager
def progress_bar(description: str) -> Iterator[Bar]:
    """Show a bar without steps until its first update."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<20}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        yield Bar(progress, progress.add_task(description, total=None, count=""))


@contextmanager
def replay_bar(description: str = "replaying settings") -> Iterator[Callable[[int], Callable[[], None]]]:
    """Show a bar of replays; yield a function that adds replays, and returns a function to call after each."""
    done = total = 0
    with progress_bar("reading the source") as bar:

        def update() -> None:
            bar.update(description, done, total, f"{done}/{total}")

        def advance() -> None:
            nonlocal done
            done += 1
            update()

        def add(replays: int) -> Callable[[], None]:
            nonlocal total
            total += replays
            update()
            return advance

        yield add
