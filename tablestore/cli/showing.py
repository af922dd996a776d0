"""What commands that run for long show of a job until it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live

_LOOK_SECONDS = 0.25


class ViewedJob(Protocol):
    """What runs by itself until it has ended or is stopped."""

    @property
    def running(self) -> bool: ...

    def stop(self) -> object:
        """End it, and wait until it has ended."""


def show_until_end(
    job: ViewedJob,
    screen: Console,
    asked: Event,
    *,
    picture: Callable[[], RenderableType],
    print_news: Callable[[], None],
) -> None:
    """Look at a job now and then until it has ended, and once after it; it is stopped once that is `asked`.

    A terminal shows its `picture`; elsewhere `print_news` prints what is new since it was called last."""
    if not screen.is_terminal:
        for _ in _until_end(job, asked):
            print_news()
        return
    with Live(console=screen, auto_refresh=False) as live:
        for _ in _until_end(job, asked):
            live.update(picture(), refresh=True)


def _until_end(job: ViewedJob, asked: Event) -> Iterator[None]:
    while job.running:
        yield
        if asked.wait(_LOOK_SECONDS):
            job.stop()
    yield
