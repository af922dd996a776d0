"""The card of a lake: its first tables with their newest snapshots.

Reads one schema and one snapshot file a table, of `MOST_TABLES` tables at most, and stops after
`MOST_SECONDS`. A table that cannot be opened is a line with its error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tablestore.core.env import Env
from tablestore.core.errors import TablestoreError
from tablestore.core.quantities import many
from tablestore.insight.cards import html, table
from tablestore.insight.cards.html import TextCell
from tablestore.meta.store import Store

MOST_TABLES, MOST_SECONDS = 20, 1.0
_HEADS = [("table", False), ("", False), ("rows stored", True), ("snapshot", True), ("committed", False)]


def card(warehouse: str, names: Sequence[str], opened: Callable[[str], Store], env: Env) -> str:
    """The card of the lake at `warehouse` with these tables; `opened` gives the store of one."""
    started, lines = env.monotonic(), list[list[TextCell]]()
    for name in names[:MOST_TABLES]:
        if env.monotonic() - started > MOST_SECONDS:
            break
        lines.append(_line(name, opened))
    more = len(names) - len(lines)
    databases = len({name.rpartition(".")[0] for name in names})
    return html.card(
        warehouse,
        "lake",
        facts=[html.counted(len(names), "table"), html.counted(databases, "database", "with tables")],
        body=[html.rows(_HEADS, lines) if lines else html.line("no tables yet")],
        code=f"import widgets; widgets.LakeHealth(ts.connect({warehouse!r}))" if names else "",
        note=f"{many(more, 'more table')}: lake.tables() names them all" if more > 0 else "",
    )


def _line(name: str, opened: Callable[[str], Store]) -> list[TextCell]:
    try:
        store = opened(name)
        latest = store.snapshots.latest()
        rows = snapshot = "–"
        when = ""
        if latest is not None:
            rows = "–" if latest.total_record_count is None else f"{latest.total_record_count:,}"
            snapshot, when = (
                f"#{latest.id}",
                f"{latest.commit_kind} {html.moment(store.env, latest.time_millis)}",
            )
        kind = TextCell(table.kind(store), colour="ink2")
        return [
            TextCell(name),
            kind,
            TextCell(rows, True),
            TextCell(snapshot, True),
            TextCell(when, colour="ink2"),
        ]
    except (TablestoreError, OSError, ValueError) as e:
        error = TextCell(f"✕ {type(e).__name__}: {e}", colour="err", wraps=True)
        return [TextCell(name), error, *[TextCell("")] * 3]
