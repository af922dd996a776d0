"""A bar for each step of a demo, with rows and rows a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from notebooks.demo.pipeline import ShowProgress


@contextmanager
def step_bars(screen: Console) -> Iterator[ShowProgress]:
    """A `show` that moves a progress bar for each step; a line at the end of each where there
    is no terminal.
    """
    columns = (
        TextColumn("{task.description:<13}"),
        BarColumn(bar_width=12),  # a step is a line on a screen of 80 columns
        _Amount(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    progress = Progress(*columns, console=screen, refresh_per_second=4)  # a draw takes milliseconds
    task_ids: dict[str, Any] = {}

    def show(step: str, done: float, total: float, note: str) -> None:
        if step not in task_ids:
            task_ids[step] = progress.add_task(step, total=total or None, note="")
        progress.update(task_ids[step], completed=done, total=total or None, note=note)

    with progress:
        yield show
        for task in task_ids.values():
            if progress.tasks[task].total is None:
                progress.update(task, total=max(progress.tasks[task].completed, 1))


class _Amount(ProgressColumn):
    """Rows and rows a second, or the share done of what is not counted in rows."""

    def render(self, task: Task) -> Text:
        note = f"  {task.fields['note']}" if task.fields.get("note") else ""
        if task.total is not None and task.total <= 1:
            return _line(f"{task.percentage:3.0f} %{note}")
        total = f" of {task.total:,.0f}" if task.total and not task.finished else ""
        seconds = task.finished_time or task.elapsed or 0.0
        speed = f"  {task.completed / seconds:,.0f}/s" if seconds > 0.5 and task.completed else ""
        return _line(f"{task.completed:,.0f}{total} rows{speed}{note}")


def _line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")
