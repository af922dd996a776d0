"""What the health view of a table says: the verdict, its numbers, the buckets over time, the worst of them.

Pure: from `inspect.health()`, whose sentence it is, `inspect.commits()` and the grid of `inspect.stays()`. No
rule of the engine is here: what is due, and why, are the engine's words. Called by `widget`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.health.grid import Edits, HealthGrid, grid_of
from widgets.kit import format as fmt
from widgets.kit.svg import plain

WORST, MAX_ROWS, COLUMN = 8, 64, 4
COMPACT = "COMPACT"
LEVELS = " ▁▂▃▄▅▆▇█"
TEXT_COLUMNS = 60


class Measured(Protocol):
    """What `inspect.health()` gives."""

    snapshot: int | None
    merges: bool
    buckets: pa.Table
    stop: int
    state: str
    verdict: str
    files: int
    bytes: int
    rows: int
    due: int
    due_bytes: int
    opened: float


@dataclass(frozen=True, slots=True)
class Bad:
    """One bucket of the list of the worst: its numbers, what is due there and why."""

    partition: str
    bucket: int
    runs: int
    files: int
    bytes: int
    due_files: int
    due_bytes: int
    due: str
    reason: str

    @property
    def id(self) -> str:
        """Names the bucket in traits: `l_year=1995/l_month=6/1`."""
        return f"{self.partition}/{self.bucket}"

    @property
    def place(self) -> str:
        """`day=mon · bucket 3`."""
        return f"{self.partition} · bucket {self.bucket}" if self.partition else f"bucket {self.bucket}"


@dataclass(frozen=True, eq=False)
class Commits:
    """The commits in arrays: ids ascending, kinds, files that came and went, buckets touched."""

    ids: np.ndarray
    kinds: tuple[str, ...]
    files_added: np.ndarray
    files_removed: np.ndarray
    bytes_added: np.ndarray
    touched: np.ndarray

    @classmethod
    def of(cls, commits: pa.Table, edits: Edits) -> "Commits":
        """From `inspect.commits()`."""
        ids, added, removed, size = (
            pc.fill_null(commits[name].cast(pa.int64()), 0).to_numpy()
            for name in ("snapshot_id", "files_added", "files_removed", "bytes_added")
        )
        return cls(ids, tuple(commits["commit_kind"].to_pylist()), added, removed, size, edits.touched(ids))

    @property
    def newest(self) -> int | None:
        """The newest snapshot."""
        return int(self.ids[-1]) if len(self.ids) else None

    @property
    def compactions(self) -> list[tuple[int, int]]:
        """First and last position of each row of COMPACT commits that follow one another."""
        compact = np.array([False, *(kind == COMPACT for kind in self.kinds), False])
        edges = np.flatnonzero(compact[1:] != compact[:-1])
        return [(int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]

    def fewer(self, span: tuple[int, int]) -> int:
        """By how many files a row of commits made the table smaller."""
        some = slice(span[0], span[1] + 1)
        return int(self.files_removed[some].sum() - self.files_added[some].sum())


@dataclass(frozen=True, eq=False)
class HealthModel:
    """The view of one table at a snapshot as a value. `amplification` is a row of `inspect.amplification()`,
    None while it is read; `group` buckets share a row of the grid."""

    table: str
    state: str = "empty"
    verdict: str = "not read yet"
    snapshot: int | None = None
    facts: tuple[tuple[str, str], ...] = ()
    worst: tuple[Bad, ...] = ()
    more: int = 0
    trigger: int = 0
    stop: int = 0
    merges: bool = True
    grid: HealthGrid | None = None
    commits: Commits | None = None
    bought: tuple[str, ...] = ()
    amplification: dict[str, Any] | None = None

    @property
    def group(self) -> int:
        """How many buckets share a row."""
        return max(-(-len(self.grid.places) // MAX_ROWS), 1) if self.grid else 1

    @property
    def past(self) -> bool:
        """Whether a snapshot before the newest is shown."""
        newest = self.commits.newest if self.commits else None
        return self.snapshot is not None and newest is not None and self.snapshot < newest

    def row_of(self, bucket: str) -> int | None:
        """The row of the grid that a bucket's id is in."""
        partition, _, number = bucket.rpartition("/")
        for at, place in enumerate(self.grid.places if self.grid else ()):
            if place == (partition, int(number or -1)):
                return at // self.group
        return None

    def rows(self, name: str) -> np.ndarray:
        """A quantity of the grid by row: the largest of the buckets that share it."""
        assert self.grid is not None, "only a table with snapshots has rows"
        values: np.ndarray = getattr(self.grid, name)
        starts = np.arange(0, len(values), self.group)
        return np.maximum.reduceat(values, starts, axis=0) if len(values) else values

    def worst_of_row(self, row: int, column: int) -> str:
        """The id of the bucket of a row with most runs in a column, then most bytes."""
        assert self.grid is not None, "only a table with snapshots has rows"
        first, last = row * self.group, min((row + 1) * self.group, len(self.grid.places))
        order = np.lexsort((-self.grid.bytes[first:last, column], -self.grid.runs[first:last, column]))
        partition, bucket = self.grid.places[first + int(order[0])]
        return f"{partition}/{bucket}"


def health_model(
    measured: Measured, commits: pa.Table, edits: Edits, *, table: str, trigger: int, width: float
) -> HealthModel:
    """The view of what was measured; `width` are the pixels that the grid may have."""
    held = Commits.of(commits, edits)
    grid = grid_of(edits, held.ids, columns=max(int(width // COLUMN), 8)) if len(held.ids) else None
    rows = measured.buckets.slice(0, WORST).to_pylist()
    bad = tuple(_bad(row) for row in rows if row["due"] or row["runs"] > 1)
    return HealthModel(
        table,
        measured.state,
        measured.verdict,
        measured.snapshot,
        _facts(measured),
        bad,
        max(measured.due - sum(bool(b.due) for b in bad), 0),
        trigger,
        measured.stop,
        measured.merges,
        grid,
        held,
        bought_of(held, edits),
    )


def _bad(row: dict[str, Any]) -> Bad:
    numbers = (int(row[name]) for name in ("bucket", "runs", "files", "bytes"))
    bucket, runs, files, size = numbers
    due = (int(row["due_files"]), int(row["due_bytes"]), row["due"] or "", row["reason"] or "")
    return Bad(row["partition"] or "", bucket, runs, files, size, *due)


def _facts(measured: Measured) -> tuple[tuple[str, str], ...]:
    reads = ((_one(measured.opened), "runs a read opens"),) if measured.merges else ()
    return (
        (fmt.short_count(measured.buckets.num_rows), "buckets"),
        (fmt.short_count(measured.due), "due"),
        *reads,
        (fmt.count(measured.files) if measured.files < 100_000 else fmt.short_count(measured.files), "files"),
        (fmt.bytes_text(measured.bytes), "live"),
        (fmt.short_count(measured.rows), "rows stored"),
    )


def _one(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def bought_of(commits: Commits, edits: Edits) -> tuple[str, ...]:
    """What the last compactions, one after another, made of the table, and those that saved most files, if
    they are others: `#9 … #20 COMPACT: 2,305 → 168 files, …`."""
    spans = commits.compactions
    if not spans:
        return ("No COMPACT commit among the snapshots there are.",)
    most = max(spans, key=commits.fewer)
    last = _bought(commits, edits, spans[-1])
    return (last,) if most == spans[-1] else (last, f"The most: {_bought(commits, edits, most)}")


def _bought(commits: Commits, edits: Edits, span: tuple[int, int]) -> str:
    first, last = span
    before, after = edits.at(int(commits.ids[first]) - 1), edits.at(int(commits.ids[last]))
    ids = f"#{commits.ids[last]}" if first == last else f"#{commits.ids[first]} … #{commits.ids[last]}"
    counts = tuple(fmt.count(int(state["files"].sum())) for state in (before, after))
    runs = tuple(_one(_mean(state)) for state in (before, after))
    wrote = fmt.bytes_text(int(commits.bytes_added[first : last + 1].sum()))
    opens = f"a read opens {runs[0]} → {runs[1]} runs"
    return f"{ids} COMPACT: {counts[0]} → {counts[1]} files, {opens}, wrote {wrote}."


def _mean(state: dict[str, np.ndarray]) -> float:
    rows = state["rows"].sum()
    return float((state["runs"] * state["rows"]).sum() / rows) if rows else 0.0


def estimate(
    buckets: pa.Table, chosen: Sequence[str], compactions: Sequence[tuple[int, int]]
) -> tuple[int, int, float | None]:
    """Buckets with work among the `chosen`, bytes that their compactions read, and seconds by what the last
    ones took, each (bytes read, millis); None where none was measured."""
    ids = pc.binary_join_element_wise(
        pc.fill_null(buckets["partition"], ""), buckets["bucket"].cast(pa.string()), "/"
    )
    mine = buckets.filter(pc.is_in(ids, pa.array(list(chosen), pa.string())))
    busy = mine.filter(pc.is_valid(mine["due"]))
    size = pc.sum(busy["due_bytes"]).as_py() or 0
    read, millis = sum(b for b, _ in compactions), sum(m for _, m in compactions)
    return busy.num_rows, int(size), size * millis / read / 1000 if read and millis else None


def text_of(model: HealthModel) -> str:
    """The view in a terminal."""
    lines = [
        f"{plain(model.table)[:80]}: {model.verdict}",
        " · ".join(f"{n} {noun}" for n, noun in model.facts),
    ]
    if model.grid is not None and model.grid.columns and len(model.grid.places):
        step = max(-(-model.grid.columns // TEXT_COLUMNS), 1)
        most = model.grid.runs.max(axis=0)
        top = max(int(most.max()), 1)
        shown = np.maximum.reduceat(most, np.arange(0, len(most), step))
        bars = "".join(LEVELS[-(-int(v) * 8 // top)] for v in shown)
        lines.append(f"most runs {bars} {int(most[-1])} (most ever {top})")
    for bad in model.worst:
        due = f", due {bad.due}: {bad.reason}" if bad.due else ""
        runs, files = fmt.plural(bad.runs, "run"), fmt.plural(bad.files, "file")
        lines.append(f"  {plain(bad.place)[:80]}: {runs}, {files}, {fmt.bytes_text(bad.bytes)}{due}")
    if model.more:
        lines.append(f"  … and {fmt.plural(model.more, 'more bucket')} with work")
    if model.amplification:
        lines.append(amplification_words(model.amplification))
    lines += model.bought
    return "\n".join(line for line in lines if line)


def amplification_words(row: dict[str, Any]) -> str:
    """`write amplification 2.22 · space amplification 1.1 to 1.9`."""
    return " · ".join(f"{noun} {number}" for number, noun in amplification_facts(row))


def amplification_facts(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Write and space amplification of the whole table: number, noun."""
    write, space = row.get("write_amplification"), row.get("space_amplification")
    ends = row.get("space_min"), row.get("space_max")
    held = None if space is None else f"{space:.2f}" if row.get("space_exact") else fmt.factor(space, *ends)
    return (
        (fmt.ABSENT if write is None else f"{write:.2f}", "write amplification"),
        (held or fmt.ABSENT, "space amplification"),
    )
