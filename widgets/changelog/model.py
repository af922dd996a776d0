"""Changes as rows of keys and columns of snapshots, and four producers side by side.

Invariants: kinds and rows are the engine's; the rows of the picture are the keys of everything loaded, so
moving among snapshots moves none of them. Bounded: `MAX_KEYS` keys are kept of all, `PER_CELL` changes of a
key and snapshot. Pure: Arrow → frozen values. Called by the figures and by the widget.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from widgets.kit import format as fmt

KINDS = ("+I", "−U", "+U", "−D")
SIGNS = {"+I": "+I", "-U": "−U", "+U": "+U", "-D": "−D"}
MAX_KEYS, PER_CELL = 200, 12
SNAPSHOT, KIND = "snapshot_id", "rowkind"
SUMS = {"right": "✓", "late": "▲", "wrong": "✕"}


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One row of a changelog."""

    snapshot: int
    kind: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ChangeCommit:
    """A snapshot of the window."""

    id: int
    kind: str
    changes: int


@dataclass(frozen=True, slots=True)
class KeyRow:
    """All changes of one key, by snapshot."""

    key: str
    cells: Mapping[int, tuple[KeyChange, ...]]


@dataclass(frozen=True, slots=True)
class ChangelogModel:
    """The changes of some snapshots."""

    producer: str = "none"
    key_names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    commits: tuple[ChangeCommit, ...] = ()
    keys: tuple[KeyRow, ...] = ()
    all_keys: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    normalized: bool = False

    @property
    def changes(self) -> int:
        """All changes that were read."""
        return sum(self.counts.values())

    def matching(self, text: str, kinds: Sequence[str]) -> tuple[KeyRow, ...]:
        """The keys that begin with `text` and have a change of one of `kinds`."""
        wanted, chosen = text.strip().casefold(), set(kinds)
        whole = chosen >= set(KINDS)
        rows = []
        for row in self.keys:
            if wanted and not (row.key.casefold().startswith(wanted) or fmt.key(row.key).startswith(wanted)):
                continue
            cells = {
                snapshot: kept
                for snapshot, changes in row.cells.items()
                if (kept := changes if whole else tuple(c for c in changes if c.kind in chosen))
            }
            if cells:
                rows.append(KeyRow(row.key, cells))
        return tuple(rows)

    def position(self, snapshot: int | None) -> int:
        """Where a snapshot stands; the last one at or before it."""
        if snapshot is None or not self.commits:
            return len(self.commits) - 1
        return max(sum(commit.id <= snapshot for commit in self.commits) - 1, 0)


def changelog_model(
    changes: pa.Table,
    commits: Sequence[tuple[int, str]],
    *,
    primary_key: Sequence[str],
    producer: str = "none",
    normalized: bool = False,
) -> ChangelogModel:
    """`changes` has `snapshot_id`, `rowkind` and the table's columns; `commits`: (id, kind), oldest first."""
    names = [n for n in changes.column_names if n not in (SNAPSHOT, KIND)]
    keys = [n for n in (primary_key or names) if n in names]
    shown, everyone = _first_keys(changes, keys)
    per_snapshot = Counter(shown_id for shown_id in changes[SNAPSHOT].to_pylist()) if changes.num_rows else {}
    kinds = Counter(SIGNS[kind] for kind in changes[KIND].to_pylist()) if changes.num_rows else {}
    return ChangelogModel(
        producer=producer,
        key_names=tuple(keys),
        columns=tuple(n for n in names if n not in keys),
        commits=tuple(ChangeCommit(i, kind, per_snapshot.get(i, 0)) for i, kind in commits),
        keys=tuple(_key_rows(shown, keys)),
        all_keys=everyone,
        counts=dict(kinds),
        normalized=normalized,
    )


def _first_keys(changes: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, int]:
    """The changes of `MAX_KEYS` keys, in changelog order, and how many keys there are: those that changed
    last, so that the newest snapshots show changes."""
    if not changes.num_rows or not keys:
        return changes, 0
    distinct = changes.select([*keys, SNAPSHOT]).group_by(list(keys)).aggregate([(SNAPSHOT, "max")])
    if distinct.num_rows <= MAX_KEYS:
        return changes, distinct.num_rows
    newest = (f"{SNAPSHOT}_max", "descending")
    first = distinct.sort_by([newest, *((k, "ascending") for k in keys)]).slice(0, MAX_KEYS).select(keys)
    first = first.append_column("_kept", pa.repeat(pa.scalar(True), first.num_rows))
    numbered = changes.append_column("_place", pa.array(range(changes.num_rows)))
    kept = numbered.join(first, list(keys), join_type="inner").sort_by("_place")
    return kept.select(changes.column_names), distinct.num_rows


def _key_rows(changes: pa.Table, keys: Sequence[str]) -> list[KeyRow]:
    """Rows by key, keys rising."""
    if not changes.num_rows:
        return []
    order = pc.sort_indices(changes.select(keys), [(k, "ascending") for k in keys]).to_pylist()
    ranks: dict[str, int] = {}
    rows = changes.to_pylist()
    texts = [", ".join(fmt.value(row[k]) or "null" for k in keys) for row in rows]
    for at in order:
        ranks.setdefault(texts[at], len(ranks))
    cells: dict[str, dict[int, list[KeyChange]]] = {text: {} for text in ranks}
    for text, row in zip(texts, rows, strict=True):
        values = {n: fmt.value(v) for n, v in row.items() if n not in (SNAPSHOT, KIND) and n not in keys}
        mine = cells[text].setdefault(row[SNAPSHOT], [])
        if len(mine) < PER_CELL:
            mine.append(KeyChange(row[SNAPSHOT], SIGNS[row[KIND]], values))
    return [KeyRow(text, {s: tuple(c) for s, c in cells[text].items()}) for text in ranks]


@dataclass(frozen=True, slots=True)
class Total:
    """A sum that a consumer keeps of the changes, and the same of the table: `state` is right, late (it is
    that of an older snapshot, the last whose changes came) or wrong."""

    column: str
    kept: str
    table: str
    state: str
    why: str

    @property
    def right(self) -> bool:
        """Whether the consumer has the table's sum."""
        return self.state == "right"


@dataclass(frozen=True, slots=True)
class Producer:
    """What one changelog producer made of the input."""

    name: str
    says: str
    model: ChangelogModel = field(default_factory=ChangelogModel)
    rows: int = 0
    files: int = 0
    bytes: int = 0
    first: int | None = None
    last: int | None = None
    snapshots: int = 0
    total: Total | None = None
    error: str = ""

    def of_key(self, key: str) -> tuple[KeyChange, ...]:
        """The changes of a key in the order of the changelog."""
        key_row = next((row for row in self.model.keys if row.key == key), None)
        return tuple(c for s in sorted(key_row.cells) for c in key_row.cells[s]) if key_row else ()


@dataclass(frozen=True, slots=True)
class ProducersModel:
    """The four producers over one input of `writes` commits."""

    writes: int
    producers: tuple[Producer, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that any of them has changes of."""
        rows = [row.key for producer in self.producers for row in producer.model.keys]
        return tuple(dict.fromkeys(rows))

    @property
    def most_changed(self) -> str:
        """The key with the most changes, the first of several."""
        return max(self.keys, key=lambda k: sum(len(p.of_key(k)) for p in self.producers), default="")


def text_form(model: ChangelogModel, column: str, *, snapshots: int = 6, keys: int = 12) -> str:
    """Changes in a terminal: a line a key, the newest snapshots."""
    shown = model.commits[-snapshots:]
    head = f"Changelog · producer {model.producer} · {fmt.plural(model.changes, 'change')} of "
    head += fmt.plural(model.all_keys, "key")
    lines = [[", ".join(model.key_names), *(f"#{c.id}{'◆' if c.kind == 'COMPACT' else ''}" for c in shown)]]
    for row in model.keys[:keys]:
        cells = [
            " ".join(_cell_text(c, column) for c in row.cells.get(commit.id, ())) or "·" for commit in shown
        ]
        lines.append([row.key, *cells])
    if len(lines) == 1:
        return f"{head}\nNo changes here."
    wide = [min(max(len(line[at]) for line in lines), 28) for at in range(len(lines[0]))]
    cut = [
        [c if len(c) <= w else f"{c[: w - 1]}…" for c, w in zip(line, wide, strict=True)] for line in lines
    ]
    body = ["  ".join(c.ljust(w) for c, w in zip(line, wide, strict=True)).rstrip() for line in cut]
    more = model.all_keys - len(model.keys[:keys])
    return "\n".join([head, *body, *([f"and {more:,} more keys"] if more > 0 else [])])


def _cell_text(change: KeyChange, column: str) -> str:
    return f"{change.kind} {change.values.get(column) or 'null'}" if column else change.kind


def producers_text(model: ProducersModel, key: str, column: str) -> str:
    """The four producers in a terminal."""
    lines = [f"Key {key} through the changelog producers · {fmt.plural(model.writes, 'write')}"]
    for producer in model.producers:
        if producer.error:
            lines.append(f"{producer.name:<16} refused: {producer.error}")
            continue
        events = (
            "  ".join(f"{_cell_text(c, column)} (#{c.snapshot})" for c in producer.of_key(key)) or "nothing"
        )
        lines.append(f"{producer.name:<16} {events}")
        cost = f"{fmt.plural(producer.rows, 'row')}, {fmt.plural(producer.files, 'file')}"
        lines.append(f"{'':<16} {cost}, {fmt.bytes_text(producer.bytes)}")
        if producer.total is not None:
            kept = producer.total
            lines.append(f"{'':<16} {SUMS[kept.state]} sum({kept.column}) = {kept.kept}: {kept.why}")
    return "\n".join(lines)
