"""The card of a table: its commits, how much it holds, its health, and the line that opens its cockpit; and
of a lake: its first tables with their newest snapshots.

A table's reads the snapshot, its manifests, and the files of the newest `NEWEST` snapshots. A state of more
than `MOST_FILES` files is counted by its manifest lists alone. A lake's reads one schema and one snapshot
file a table, of `MOST_TABLES` tables at most, and stops after `MOST_SECONDS`. The commits are a small
picture: rows added as bars above a line, kinds as glyphs on it; without style the words beside it say the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tablestore.core.env import Env
from tablestore.core.errors import NotFound, TablestoreError
from tablestore.core.quantities import many, size
from tablestore.format.manifests.manifest import ManifestFileMeta
from tablestore.format.snapshot import ANALYZE, COMPACT, OVERWRITE, Snapshot
from tablestore.insight.cards import html, table
from tablestore.insight.cards.html import TextCell, ink
from tablestore.insight.health import Health, health
from tablestore.meta.store import Store

MOST_FILES = 100_000
MOST_TABLES, MOST_SECONDS = 20, 1.0
_HEADS = [("table", False), ("", False), ("rows stored", True), ("snapshot", True), ("committed", False)]
_MOST_COLUMNS = 40
_WORST = 5
NEWEST = 60  # commits that are drawn
_STEP, _UP, _DOWN = 8, 30, 10
_COLOURS = {COMPACT: "compact", OVERWRITE: "overwrite", ANALYZE: "analyze"}


def card(store: Store, name: str, at: Snapshot | None = None) -> str:
    """The card of the table `name`, at the snapshot `at` or the newest."""
    schema = store.schema
    snapshots = newest(store, at)
    newest_snapshot = snapshots[-1] if snapshots else at
    facts, chip, note = _held(store, newest_snapshot)
    past = "" if at is None else f" · as it was at snapshot {at.id}"
    columns = [
        [TextCell(f.name), TextCell(str(f.type)), TextCell(f.description or "")]
        for f in schema.fields[:_MOST_COLUMNS]
    ]
    more = len(schema.fields) - _MOST_COLUMNS
    listed = html.rows([("column", False), ("type", False), ("comment", False)], columns)
    listed += html.line(f"… {more:,} more") if more > 0 else ""
    return html.card(
        name,
        f"{kind(store)}{past}",
        chip=chip,
        facts=facts,
        body=[_drawn(snapshots), html.folded(many(len(schema.fields), "column"), listed)],
        code=f"import widgets; widgets.Workbench(ts.open({store.paths.root!r}))",
        note=note,
    )


def newest(store: Store, at: Snapshot | None = None, *, count: int = NEWEST) -> list[Snapshot]:
    """The newest snapshots (up to `at`), `count` at most, oldest first; without those that expire
    meanwhile."""
    ids = [i for i in store.snapshots.ids() if at is None or i <= at.id]
    snapshots = []
    for snapshot_id in ids[-count:]:
        try:
            snapshots.append(store.snapshots.get(snapshot_id))
        except NotFound:
            continue
    return snapshots


def kind(store: Store) -> str:
    """`key (order_id) · by day · 168 buckets`."""
    schema, options = store.schema, store.options
    keys = ", ".join(schema.primary_keys)
    append = "append table" if schema.row_count_field is None else "change-log table"
    parts = [f"key ({keys}) · {options.merge_engine}" if keys else append]
    if schema.partition_keys:
        parts.append(f"by {', '.join(schema.partition_keys)}")
    if options.bucket > 0:
        parts.append(many(options.bucket, "bucket"))
    return " · ".join(parts)


def measured(store: Store, snapshot: Snapshot | None) -> Health | list[ManifestFileMeta]:
    """The health of a snapshot; its manifests alone where they name more files than a card reads."""
    manifests = store.manifests.manifests(snapshot) if snapshot is not None else []
    if snapshot is not None and sum(m.num_added + m.num_deleted for m in manifests) > MOST_FILES:
        return manifests
    return health(store, snapshot)


def _held(
    store: Store, snapshot: Snapshot | None
) -> tuple[list[tuple[str, str]], tuple[str, str] | None, str]:
    """Facts, chip and note of a state."""
    try:
        statistics = measured(store, snapshot)
    except TablestoreError as e:
        return [], ("broken", "its manifests cannot be read"), f"{type(e).__name__}: {e}"
    if not isinstance(statistics, Health):
        files = sum(m.num_added - m.num_deleted for m in statistics)
        note = f"more than {MOST_FILES:,} entries: table.inspect.health() looks at each bucket"
        return [html.counted(files, "file")], None, note
    facts = [
        html.counted(statistics.files, "file"),
        (size(statistics.bytes), ""),
        html.counted(statistics.rows, "row", "stored"),
        html.counted(statistics.buckets.num_rows, "bucket", "with files"),
    ]
    when = (
        "" if snapshot is None else f"snapshot {snapshot.id}, {html.moment(store.env, snapshot.time_millis)}"
    )
    return facts, (statistics.state, statistics.verdict), when


def _drawn(snapshots: list[Snapshot]) -> str:
    if not snapshots:
        return ""
    below = html.line(words(snapshots), "ink3")
    return f'{timeline(snapshots)}<div style="font-size:11px">{below}</div>'


def health_card(health: Health) -> str:
    """The card of a health: the verdict, the sums, the worst buckets."""
    worst = health.buckets.slice(0, _WORST).to_pylist()
    heads = [
        ("bucket", False),
        ("runs", True),
        ("files", True),
        ("bytes", True),
        ("due", False),
        ("because", False),
    ]
    lines = [
        [
            TextCell(f"{r['partition']}/{r['bucket']}" if r["partition"] else f"bucket {r['bucket']}"),
            TextCell(f"{r['runs']:,}", True),
            TextCell(f"{r['files']:,}", True),
            TextCell(size(r["bytes"]), True),
            TextCell(r["due"] or "–", colour="compact" if r["due"] else "ink3"),
            TextCell(r["reason"] or "–", colour="ink2", wraps=True),
        ]
        for r in worst
    ]
    more = health.buckets.num_rows - len(worst)
    at = "no snapshot" if health.snapshot is None else f"snapshot {health.snapshot}"
    return html.card(
        "Health",
        at,
        chip=(health.state, health.verdict),
        facts=[
            html.counted(health.files, "file"),
            (size(health.bytes), ""),
            html.counted(health.rows, "row", "stored"),
        ],
        body=[html.rows(heads, lines) if lines else ""],
        note=f"{many(more, 'more bucket')}: .buckets has them all" if more > 0 else "",
    )


def timeline(snapshots: Sequence[Snapshot]) -> str:
    """SVG of the newest `NEWEST` of these snapshots, oldest at the left."""
    shown = snapshots[-NEWEST:]
    most = max((_rows(s) for s in shown), default=0)
    width, height = len(shown) * _STEP, _UP + _DOWN
    parts = [f'<line x1="0" y1="{_UP}" x2="{width}" y2="{_UP}" stroke="{ink("line2")}" stroke-width="1"/>']
    for at, snapshot in enumerate(shown):
        colour, x = ink(_COLOURS.get(snapshot.commit_kind, "append")), at * _STEP
        if most and _rows(snapshot):
            tall = max(1.0, (_UP - 3) * _rows(snapshot) / most)
            parts.append(
                f'<rect x="{x + 1.5}" y="{_UP - tall:.1f}" width="5" height="{tall:.1f}" fill="{colour}"/>'
            )
        parts.append(_glyph(snapshot.commit_kind, x + 4, _UP + 5, colour))
    style = f"display:block;width:{width}px;height:{height}px;max-width:100%"
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'preserveAspectRatio="xMinYMid meet" style="{style}" role="img" aria-label="{words(snapshots)}">'
        f"{''.join(parts)}</svg>"
    )


def words(snapshots: Sequence[Snapshot]) -> str:
    """`newest 60 commits: 51 APPEND, 9 COMPACT`."""
    shown = snapshots[-NEWEST:]
    kinds = dict.fromkeys(s.commit_kind for s in shown)
    counts = ", ".join(f"{sum(s.commit_kind == kind for s in shown):,} {kind}" for kind in sorted(kinds))
    newest = "newest " if len(shown) >= NEWEST else ""
    return f"{newest}{many(len(shown), 'commit')}: {counts}" if shown else "no commits"


def _rows(snapshot: Snapshot) -> int:
    """Rows that a commit brought; a compaction brings none."""
    return 0 if snapshot.commit_kind == COMPACT else max(snapshot.delta_record_count or 0, 0)


def _glyph(kind: str, x: float, y: float, colour: str) -> str:
    if kind == COMPACT:
        return f'<path d="M{x} {y - 3.5}l3.5 3.5l-3.5 3.5l-3.5-3.5z" fill="{colour}"/>'
    if kind == OVERWRITE:
        return f'<rect x="{x - 2.5}" y="{y - 2.5}" width="5" height="5" fill="{colour}"/>'
    if kind == ANALYZE:
        return f'<circle cx="{x}" cy="{y}" r="2.2" fill="none" stroke="{colour}" stroke-width="1.2"/>'
    return f'<circle cx="{x}" cy="{y}" r="1.8" fill="{colour}"/>'


def lake_card(warehouse: str, names: Sequence[str], opened: Callable[[str], Store], env: Env) -> str:
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
