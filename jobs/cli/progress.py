"""Progress bar of commands that replay a sample."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def progress_bar(doing: str = "replaying settings") -> Iterator[Callable[[int], Callable[[], object]]]:
    """Show a bar on stderr; yield a function that adds replays, and returns a function to call after each."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<20}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("reading the source", total=None)

        def show(replays: int) -> Callable[[], object]:
            if replays:
                total = (progress.tasks[0].total or 0) + replays
                progress.update(task, description=doing, total=total)
            return lambda: progress.advance(task)

        yield show
