"""A progress bar that appears only for work longer than two seconds, on stderr.

Used by the generators; callers call `advance` often enough for the bar to live.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

SHOW_AFTER_SECONDS = 2.0
Advance = Callable[[float], None]


@contextmanager
def progress_bar(title: str, *, total: float, shown: bool) -> Iterator[Advance]:
    """Yields a function that takes the amount done so far, out of `total`."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=False)
    task = bar.add_task(title, total=total)
    begun = time.monotonic()
    running = False

    def advance(done: float) -> None:
        nonlocal running
        if shown and not running and time.monotonic() - begun > SHOW_AFTER_SECONDS:
            bar.start()
            running = True
        bar.update(task, completed=min(done, total))

    try:
        yield advance
        if running:
            bar.update(task, completed=total)
    finally:
        if running:
            bar.stop()
