"""`tier --serve`: the coordinator of a lake's own tables on a terminal, or a line for each change of a state.

Services, ours in other processes or of another make, and clients of Fluss connect to its address, which is
the first line on stdout. Its password is in a file of the warehouse, where ours find it by that address.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import tablestore as ts
from tablestore.cli.running import INTERRUPTED, asked_to_stop
from tablestore.cli.tier.screen import MOST_TABLES, STYLES
from tablestore.core.quantities import duration, many
from tablestore.tiering.coordinator.table_states import TableStatus

NONE = "no table is tiered yet: it needs 'log.system' = 'embedded' and 'tablestore.tiering.enabled' = 'true'"
_LOOK_SECONDS = 0.25


def serve(lake: ts.Lake, host: str, port: int, screen: Console) -> int:
    """Coordinate until Ctrl-C; the exit code. Raises OSError where the port is taken, InvalidRequest for a
    host that other machines reach."""
    with lake.coordinator(host=host, port=port) as coordinator, asked_to_stop(screen, "ending") as asked:
        print(f"fluss://{coordinator.address}", flush=True)
        live = Live(console=screen, auto_refresh=False) if screen.is_terminal else None
        before: dict[int, TableStatus] = {}
        if live is not None:
            live.start()
        elif not coordinator.tables():
            screen.print(NONE, markup=False, soft_wrap=True)
        try:
            while not asked.wait(_LOOK_SECONDS):
                found = coordinator.tables()
                if live is not None:
                    shown = picture(found, coordinator.address, epoch=coordinator.epoch, now=time.monotonic())
                    live.update(shown, refresh=True)
                else:
                    for line in changes(before, found):
                        print(line, flush=True)
                before = {one.table.table_id: one for one in found}
        finally:
            if live is not None:
                live.stop()
    return INTERRUPTED


def picture(tables: Sequence[TableStatus], address: str, *, epoch: int, now: float) -> Group:
    """Tables with state, epoch, when they are due and how their rounds ended; the late ones first. `now` is
    of the coordinator's clock."""
    head = Text.assemble(
        ("tier", "bold"), f"  coordinator at fluss://{address}, epoch {epoch}  ", _count(tables)
    )
    if not tables:
        return Group(head, Text(NONE, style="dim"))
    found = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("table", "state", "epoch", "due", "rounds", "failures"):
        found.add_column(
            title, justify="left" if title in ("table", "state", "due") else "right", no_wrap=True
        )
    late = sorted(tables, key=lambda one: (one.due_ms is not None, one.due_ms or one.since_ms))
    for one in late[:MOST_TABLES]:
        found.add_row(
            one.table.table_path,
            Text(one.state, style=STYLES.get(one.state, "")),
            str(one.tiering_epoch),
            _due(one, now),
            f"{one.rounds:,}",
            f"{one.failures:,}",
        )
    if len(tables) > MOST_TABLES:
        found.add_row(f"… {many(len(tables) - MOST_TABLES, 'more table')}")
    return Group(head, found)


def _count(tables: Sequence[TableStatus]) -> str:
    return many(len(tables), "table")


def _due(one: TableStatus, now: float) -> str:
    """`in 2.1 s`, or since when it waits or is with a service."""
    if one.due_ms is not None:
        return f"in {duration(max(one.due_ms - round(now * 1000), 0))}"
    return f"{one.state.lower()} for {duration(max(round(now * 1000) - one.since_ms, 0))}"


def changes(before: dict[int, TableStatus], tables: Sequence[TableStatus]) -> Iterator[str]:
    """A line for each table that came, went, or has another state or epoch than before."""
    for one in tables:
        known = before.get(one.table.table_id)
        if known is None:
            yield f"{one.table.table_path} {one.state}, epoch {one.tiering_epoch}"
        elif (known.state, known.tiering_epoch) != (one.state, one.tiering_epoch):
            failed = f", {many(one.failures, 'failure')}" if one.failures else ""
            yield (
                f"{one.table.table_path} {known.state} → {one.state}, epoch {one.tiering_epoch}, "
                f"{many(one.rounds, 'round')}{failed}"
            )
    here = {one.table.table_id for one in tables}
    yield from (f"{one.table.table_path} is gone" for id, one in before.items() if id not in here)
