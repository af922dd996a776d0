"""The commits of a table as columns: what a timeline draws, and which bin or page a commit falls in.

Expired snapshots that a tag keeps stand before all others: one can still travel there. Invariants: commits
are in commit order (by id); `rows` counts what APPEND and OVERWRITE added, `rewritten` the bytes COMPACT
wrote, so a compaction visibly adds nothing; a bin never takes the colour of its rarest kind. Pure: from
`table.inspect.commits()` and `.references()`. Called by the figure and by the widget.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.history.history import spans_of
from widgets.kit import format as fmt
from widgets.kit.svg import plain

KINDS = ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE")
APPEND, COMPACT, OVERWRITE, ANALYZE = range(4)
_ALTER = re.compile(r"^\s*ALTER\s+(?:ONLINE\s+)?TABLE\s+(?:`[^`]*`|[^\s`])+\s+", re.IGNORECASE)
PAGE = 30
STATEMENT = 36
"""Characters of a statement in a sentence."""
RARE_SHARE = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class TimelineModel:
    """Commits as columns, oldest first. Immutable by agreement: nobody writes into the arrays."""

    title: str
    ids: np.ndarray
    kinds: np.ndarray
    times: np.ndarray
    rows: np.ndarray
    rewritten: np.ndarray
    files_added: np.ndarray
    files_removed: np.ndarray
    tags: tuple[tuple[str, int], ...] = ()
    branches: tuple[tuple[str, int], ...] = ()
    """Name and the snapshot each branch began at."""
    kept: int = 0
    """How many of the first commits have expired and are kept by a tag."""
    unread: int = 0
    """How many older commits are there but have not been read yet."""
    paused: tuple[tuple[int, int | None], ...] = ()
    """Spans of snapshots (first, last or None) in which automatic compaction was off."""
    statements: Mapping[int, str] = field(default_factory=dict)
    """By position: the DDL of a source of changes that a commit followed."""
    late: Mapping[int, float] = field(default_factory=dict)
    """By position: seconds from the newest commit in the source that a commit holds to the commit itself."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def spans(self) -> list[list[int]]:
        """The ids as (position, id, how many) of each row of them without a gap."""
        return spans_of(self.ids)

    @property
    def expired(self) -> int:
        """How many commits came before the oldest one that is left."""
        return max(int(self.ids[self.kept]) - 1 - self.unread, 0) if len(self) > self.kept else 0

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The positions [from, to) of the snapshot ids `first` … `last`, as far as they are there."""
        low, high = sorted((first, last))
        return int(np.searchsorted(self.ids, low)), int(np.searchsorted(self.ids, high, side="right"))

    def index_of(self, snapshot: int) -> int | None:
        """The position of a snapshot id, or None."""
        place = int(np.searchsorted(self.ids, snapshot))
        return place if place < len(self) and self.ids[place] == snapshot else None

    def time(self, index: int) -> datetime | None:
        """When the commit at `index` was made."""
        moment = self.times[index]
        return None if np.isnat(moment) else moment.astype("datetime64[ms]").item()

    def kind(self, index: int) -> str:
        """APPEND, COMPACT, OVERWRITE or ANALYZE."""
        return KINDS[int(self.kinds[index])]

    def sentence(self, index: int) -> str:
        """`#7819 COMPACT · 14 Oct 03:12:40 · +0 rows · 7 files → 4`."""
        parts = [f"#{self.ids[index]} {self.kind(index)}"]
        if (moment := self.time(index)) is not None:
            parts.append(fmt.stamp(moment, today=self.time(len(self) - 1)))
        if index < self.kept:
            return " · ".join([*parts, f"expired, kept by tag {self._tag_of(index)}"])
        parts.append(fmt.plus_rows(int(self.rows[index])))
        if self.kinds[index] == COMPACT:
            parts.append(
                f"{fmt.plural(int(self.files_removed[index]), 'file')} → {self.files_added[index]:,}"
            )
        if (late := self.late.get(index)) is not None:
            parts.append(f"{fmt.duration(late)} behind its source")
        if statement := self.statements.get(index, ""):
            cut = statement if len(statement) <= STATEMENT else f"{statement[: STATEMENT - 1]}…"
            parts.append(cut)
        return " · ".join(parts)

    def _tag_of(self, index: int) -> str:
        return next((name for name, snapshot in self.tags if snapshot == self.ids[index]), "")

    def spoken(self, index: int) -> str:
        """What a screen reader says: `412, APPEND, 652,692 rows`."""
        said = f"{self.ids[index]}, {self.kind(index)}, {fmt.plural(int(self.rows[index]), 'row')}"
        return ", ".join(part for part in (said, self.statements.get(index, "")) if part)

    def find(self, text: str) -> int | None:
        """The position of an id (`412`, `#412`), a tag's name, or a time (`12:47`, `2026-11-20 12:47`)."""
        wanted = text.strip().removeprefix("#")
        tagged = dict(self.tags).get(text.strip())
        if tagged is not None:
            return self.index_of(tagged)
        if wanted.isascii() and wanted.isdigit() and len(wanted) < 19:
            return self.index_of(int(wanted))
        return self._at_time(wanted) if (len(self) and ":" in wanted) or wanted.count("-") == 2 else None

    def _at_time(self, text: str) -> int | None:
        """The last commit at or before a time of day (of the last day) or a full time stamp."""
        last = self.time(len(self) - 1) if len(self) else None
        if last is None:
            return None
        try:
            moment = datetime.fromisoformat(text if "-" in text else f"{last:%Y-%m-%d} {text}")
        except ValueError:
            return None
        limit = np.datetime64(moment.replace(tzinfo=None), "ms")
        return max(int(np.searchsorted(self.times, limit, side="right")) - 1, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Sums per bin of `per` commits, for a timeline too dense for single bars."""

    per: int
    append: np.ndarray
    overwrite: np.ndarray
    rewritten: np.ndarray
    rare: tuple[tuple[int, int, int], ...]
    """(bin, kind, how many) of every kind too rare to show as a bar."""


def timeline_model(
    commits: pa.Table,
    *,
    title: str = "",
    tags: Mapping[str, int] | None = None,
    references: pa.Table | None = None,
    paused: Sequence[tuple[int, int | None]] = (),
) -> TimelineModel:
    """The model of `inspect.commits()` and `.references()`. Columns that are missing count as nothing."""
    named = references.to_pylist() if references is not None else []
    commits = commits.sort_by("snapshot_id") if commits.num_rows else commits
    oldest = commits["snapshot_id"][0].as_py() if commits.num_rows else 0
    gone = _kept_by_tags(named, oldest)
    if gone.num_rows:
        commits = pa.concat_tables([gone, commits], promote_options="permissive")
    flags = {r["name"]: r["snapshot_id"] for r in named if r["kind"] == "tag"} | dict(tags or {})
    bends = {
        r["name"]: r["snapshot_id"] for r in named if r["kind"] == "branch" and r["snapshot_id"] is not None
    }
    kinds = np.full(commits.num_rows, ANALYZE, dtype=np.int8)
    names = commits["commit_kind"].combine_chunks() if commits.num_rows else pa.array([], pa.string())
    for code, name in enumerate(KINDS):
        kinds[pc.fill_null(pc.equal(names, name), False).to_numpy(zero_copy_only=False)] = code
    adds = (kinds == APPEND) | (kinds == OVERWRITE)
    times = _times(commits)
    statements, late = _of_source(commits, times)
    return TimelineModel(
        title=title,
        ids=_numbers(commits, "snapshot_id"),
        kinds=kinds,
        times=times,
        rows=np.where(adds, _numbers(commits, "rows_added"), 0),
        rewritten=np.where(kinds == COMPACT, _numbers(commits, "bytes_added"), 0),
        files_added=_numbers(commits, "files_added"),
        files_removed=_numbers(commits, "files_removed"),
        tags=_by_id(flags),
        branches=_by_id(bends),
        kept=gone.num_rows,
        paused=tuple(paused),
        statements=statements,
        late=late,
    )


def _of_source(commits: pa.Table, times: np.ndarray) -> tuple[dict[int, str], dict[int, float]]:
    """By position, what the properties of commits say of the source that a capture follows."""
    statements, late = dict[int, str](), dict[int, float]()
    if "properties" not in commits.column_names:
        return statements, late
    texts = commits["properties"]
    from_statement = pc.fill_null(pc.match_substring(texts, "tablestore.s"), False)
    for at in np.flatnonzero(from_statement.to_numpy()).tolist():
        properties = json.loads(texts[at].as_py())
        if statement := properties.get("tablestore.statement"):
            statements[at] = plain(" ".join(str(statement).split()))
        at_source = str(properties.get("tablestore.source-time", ""))
        if at_source.isdigit() and len(at_source) < 16 and not np.isnat(times[at]):
            late[at] = max((int(times[at].astype(np.int64)) - int(at_source)) / 1000, 0.0)
    return statements, late


def action_of(statement: str) -> str:
    """The part of a statement that says what is done: `ADD COLUMN note …` of an ALTER TABLE."""
    return _ALTER.sub("", statement, count=1)


def _by_id(names: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(names.items(), key=lambda item: (item[1], item[0])))


def _kept_by_tags(named: Sequence[Mapping[str, Any]], oldest: int) -> pa.Table:
    """Snapshots before the oldest commit that are left by name only, as rows of commits."""
    rows = {r["snapshot_id"]: r for r in named if r["kind"] == "tag" and r["snapshot_id"] < oldest}
    ids = sorted(rows)
    times = pa.array([rows[i].get("commit_time") for i in ids], pa.timestamp("ms"))
    kinds = pa.array([rows[i].get("commit_kind") for i in ids], pa.string())
    return pa.table({"snapshot_id": pa.array(ids, pa.int64()), "commit_kind": kinds, "commit_time": times})


def _numbers(commits: pa.Table, name: str) -> np.ndarray:
    if name not in commits.column_names:
        return np.zeros(commits.num_rows, dtype=np.int64)
    column = pc.fill_null(commits[name].cast(pa.int64()), 0)
    return column.to_numpy()


def _times(commits: pa.Table) -> np.ndarray:
    if "commit_time" not in commits.column_names:
        return np.full(commits.num_rows, "NaT", dtype="datetime64[ms]")
    column = commits["commit_time"]
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp("ms", tz=column.type.tz)).cast(pa.timestamp("ms"))
    return column.cast(pa.timestamp("ms")).to_numpy().astype("datetime64[ms]")


def bins(model: TimelineModel, places: int, first: int = 0, last: int | None = None) -> Bins:
    """The commits first … last in at most `places` bins of equal count."""
    shown = slice(first, len(model) if last is None else last)
    kinds, rows, rewritten = model.kinds[shown], model.rows[shown], model.rewritten[shown]
    per = max(1, -(-len(kinds) // max(places, 1)))
    starts = np.arange(0, len(kinds), per)
    if not len(starts):
        empty = np.zeros(0, dtype=np.int64)
        return Bins(per, empty, empty, empty, ())
    rare = []
    for kind in range(len(KINDS)):
        at = np.flatnonzero(kinds == kind)
        if kind != APPEND and len(at) and len(at) < RARE_SHARE * len(kinds):
            places_of, counts = np.unique(at // per, return_counts=True)
            rare += [(int(b), kind, int(n)) for b, n in zip(places_of, counts, strict=True)]
    return Bins(
        per=per,
        append=np.add.reduceat(np.where(kinds == APPEND, rows, 0), starts),
        overwrite=np.add.reduceat(np.where(kinds == OVERWRITE, rows, 0), starts),
        rewritten=np.add.reduceat(rewritten, starts),
        rare=tuple(sorted(rare)),
    )


def page_of(index: int) -> int:
    """The page of thirty commits that holds position `index`."""
    return max(index, 0) // PAGE


def text_form(model: TimelineModel, index: int, *, width: int = 72) -> str:
    """The timeline in a terminal: newest commits as one line of glyphs, then the selected one."""
    if not len(model):
        return f"{model.title}  0 snapshots\nNothing written yet."
    glyphs = "●◆■○"
    last = min(len(model), index + 1 if index >= width else max(width, index + 1))
    first = max(0, last - width)
    marks = "".join(glyphs[kind] for kind in model.kinds[first:last])
    marks = marks[: index - first] + f"[{marks[index - first]}]" + marks[index - first + 1 :]
    head = f"{model.title}  {fmt.plural(len(model), 'snapshot')} #{model.ids[0]} … #{model.ids[-1]}".strip()
    return f"{head}\n#{model.ids[first]} {marks} #{model.ids[last - 1]}\n{model.sentence(index)}"
