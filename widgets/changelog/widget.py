"""ChangelogView: what changed by key and snapshot; `ChangelogView.producers`: all producers side by side.

Traits: `snapshot` (linked to a timeline), `key` (text that keys begin with; with producers the key shown),
`kinds` (row kinds shown), `mode` changes (before and after of each row) | raw (rows as written), `page` (of
keys), `columns` (the one whose values are on the chips), `hovered`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import traitlets

import tablestore as ts
from widgets.changelog import figure as draw
from widgets.changelog import producers as side_by_side
from widgets.changelog.model import (
    KINDS,
    ChangelogModel,
    ProducersModel,
    changelog_model,
    producers_text,
    text_form,
)
from widgets.changelog.scratch import read_changes, through_producers
from widgets.kit import format as fmt
from widgets.kit import static
from widgets.kit.svg import Figure
from widgets.kit.view import View, module, option_map, require_source, title_of

SNAPSHOTS, MAX_ROWS, MAX_CHIPS = 24, 20_000, 12
MAX_ROWS_BEFORE = 200_000
"""Rows that are read without being asked for, to know what the first changes were before."""
MAX_FILES = 600
"""Files of changes that are read without being asked for; of more, each snapshot's first ones as written."""


class ChangelogView(View):
    """The changes (+I −U +U −D) of a table by key and snapshot.

    `table` gives the changes after snapshot `since` up to and with `until`; without them, those of its
    newest 24 snapshots. `columns` are shown in the cells (none: the first that is no key). Other traits
    (`key`, `kinds`, `mode`, …) go by keyword.

    >>> widgets.ChangelogView(orders, since=1).data()["rowkind"].to_pylist()
    ['-U', '+U']
    """

    _esm = module("changelog")
    key = traitlets.Unicode("").tag(sync=True)
    kinds = traitlets.Tuple().tag(sync=True)
    mode = traitlets.Enum(["changes", "raw"], "changes").tag(sync=True)
    page = traitlets.Int(0).tag(sync=True)
    columns = traitlets.Tuple().tag(sync=True)

    def __init__(
        self,
        table: ts.Table,
        *,
        since: int | None = None,
        until: int | None = None,
        columns: Sequence[str] = (),
        **kwargs: object,
    ) -> None:
        require_source(table, type(self).__name__)
        self._table: ts.Table | None = table
        self._since, self._until = since, until
        self._title, self._note = title_of(table), ""
        self._changes = pa.table({})
        self._cut: tuple[int, ...] = ()  # snapshots of which the first changes are read
        self._model: ChangelogModel = ChangelogModel()
        self._producers: ProducersModel | None = None
        super().__init__(kinds=KINDS, columns=tuple(columns), **kwargs)
        if "mode" not in kwargs and (self._rows_before() > MAX_ROWS_BEFORE or self._files() > MAX_FILES):
            self.mode = "raw"
        self.refresh()
        self._watch()

    @classmethod
    def producers(
        cls,
        batches: Sequence[object],
        *,
        primary_key: Sequence[str] | str,
        options: Mapping[str, Any] | None = None,
        measure: str | None = None,
        title: str = "",
    ) -> Self:
        """One input through the changelog producers none, input, lookup and full-compaction: what each
        writes, what it costs, and the sum that a consumer keeps.

        `batches` are Arrow tables or lists of dicts, one a commit; a column `rowkind` gives kinds.
        `primary_key` and `options` are those of the table. `measure` is the column that the consumer adds
        up. `title` stands above the picture.

        >>> batches = [[{"k": 1, "v": 1}], [{"k": 1, "v": 5}]]
        >>> print(widgets.ChangelogView.producers(batches, primary_key="k", measure="v").text())
        Key 1 through the changelog producers · 2 writes
        none             +I 1 (#1)  +I 5 (#2)
        ...
        """
        view = cls.__new__(cls)
        view._table, view._since, view._until = None, None, None
        view._title, view._note = title, ""
        view._model, view._changes, view._cut = ChangelogModel(), pa.table({}), ()
        view._producers = through_producers(
            batches, primary_key=primary_key, options=options, measure=measure
        )
        View.__init__(view, kinds=KINDS, key=view._producers.most_changed)
        view.redraw()
        view._watch()
        return view

    def _watch(self) -> None:
        self.observe(self._on_snapshot, "snapshot")
        self.observe(lambda _change: self.refresh(), "mode")
        self.observe(self._on_filter, ["key", "kinds"])
        self.observe(lambda _change: self.redraw(), ["page", "columns"])

    @property
    def model(self) -> ChangelogModel | ProducersModel:
        """What is shown."""
        return self._producers or self._model

    @property
    def code(self) -> str:
        """The call that gives what is shown."""
        if self._table is None:
            return ""
        first, last = self._bounds()
        if self.mode == "raw":
            return f"table.changes(since={first}, until={last})"
        return f"list(table.stream(start={first + 1}, until={last}, follow=False))"

    def refresh(self) -> Self:
        """Read the changes again."""
        if self._table is None:
            self.redraw()
            return self
        self.guarded(
            self._load,
            what="The changes could not be read.",
            next_step="Snapshots before these may have expired: choose a newer one, or the rows as written.",
        )
        return self

    def _bounds(self) -> tuple[int, int]:
        """(since, until): as asked for, else the newest `SNAPSHOTS`."""
        ids = self._table.inspect.snapshots()["snapshot_id"].to_pylist() if self._table is not None else []
        until = self._until if self._until is not None else max(ids, default=0)
        since = self._since if self._since is not None else max(until - SNAPSHOTS, min(ids, default=1) - 1)
        return since, until

    def _load(self) -> None:
        table = self._table
        assert table is not None
        since, until = self._bounds()
        commits = table.inspect.snapshots().select(["snapshot_id", "commit_kind"]).to_pylist()
        pairs = [(c["snapshot_id"], c["commit_kind"]) for c in commits if since < c["snapshot_id"] <= until]
        normalized = self._read(table, since, until, commits=len(pairs))
        self._model = changelog_model(
            self._changes,
            pairs,
            primary_key=table.primary_key,
            producer=str(option_map(table).get("changelog-producer", "none")),
            normalized=normalized,
        )
        if self.snapshot is None and pairs:
            self.set_trait("snapshot", pairs[-1][0])
        self.redraw()

    def _rows_before(self) -> int:
        """Rows that a reader must remember first to give −U and +U; none where the producer writes them."""
        table = self._table
        if table is None or str(option_map(table).get("changelog-producer", "none")) != "none":
            return 0
        since, _ = self._bounds()
        rows = table.inspect.snapshots().select(["snapshot_id", "total_record_count"]).to_pylist()
        return next((row["total_record_count"] or 0 for row in rows if row["snapshot_id"] == since), 0)

    def _files(self) -> int:
        """Changelog files that a reader of −U and +U must read."""
        table = self._table
        if table is None or str(option_map(table).get("changelog-producer", "none")) != "none":
            return 0
        since, until = self._bounds()
        lists = table.inspect.snapshots().select(["snapshot_id", "delta_manifest_list"]).to_pylist()
        names = [row["delta_manifest_list"] for row in lists if since < row["snapshot_id"] <= until]
        return sum(pc.sum(table.inspect.list_manifests(n)["files_added"]).as_py() or 0 for n in names)

    def _read(self, table: ts.Table, since: int, until: int, *, commits: int) -> bool:
        """Read the changes; whether they are normalised: as written where a table's rows cannot be."""
        asked = {"start": since + 1, "until": until, "limit": MAX_ROWS}
        self._note = ""
        if self.mode == "changes":
            try:
                self._changes, self._cut = read_changes(table, normalize=None, **asked)
                return True
            except ts.Unsupported as error:
                self._note = f"as written: {error}"
        batches = max(MAX_FILES // max(commits, 1), 1) if self._files() > MAX_FILES else None
        self._changes, self._cut = read_changes(table, normalize=False, batches=batches, **asked)
        return False

    def _on_snapshot(self, change: Mapping[str, Any]) -> None:
        wanted = change["new"]
        ids = [commit.id for commit in self._model.commits]
        if self._table is not None and wanted is not None and ids and wanted not in ids:
            half = SNAPSHOTS // 2
            self._since, self._until = max(wanted - half, 0), wanted + half
            self._clamp()
            self.refresh()
            return
        self.redraw()

    def _clamp(self) -> None:
        """Keep the window within what there is."""
        assert self._table is not None
        ids = self._table.inspect.snapshots()["snapshot_id"].to_pylist()
        self._until = min(self._until or 0, max(ids, default=0))
        self._since = max(self._since or 0, min(ids, default=1) - 1)

    def _on_filter(self, _change: Mapping[str, Any]) -> None:
        if self.page:
            self.page = 0
        else:
            self.redraw()

    def _column(self) -> str:
        """The column on the chips: the one chosen, else the first that is no key."""
        columns = self._model.columns
        if self._producers is not None:
            columns = next((p.model.columns for p in self._producers.producers if p.model.columns), ())
        return next((str(c) for c in self.columns if c in columns), columns[0] if columns else "")

    def _window(
        self, width: float, *, snapshot: int | None, kinds: Sequence[str], key: str
    ) -> draw.ChangeWindow:
        return draw.window_of(
            self._model, snapshot=snapshot, text_wanted=key, kinds=kinds, page=self.page, width=width
        )

    def figure(self, *, width: float) -> Figure:
        """Keys and snapshots, or the producers."""
        if self._producers is not None:
            return side_by_side.producers_figure(
                self._producers, key=self.key, column=self._column(), width=width
            )
        kinds = [str(kind) for kind in self.kinds]
        window = self._window(width, snapshot=self.snapshot, kinds=kinds, key=self.key)
        return self._drawn(window, self.snapshot, width)

    def _drawn(self, window: draw.ChangeWindow, snapshot: int | None, width: float) -> Figure:
        return draw.changelog_figure(
            self._model, window, snapshot=snapshot, column=self._column(), width=width
        )

    def words(self, *, width: float) -> dict[str, Any]:
        """Producer, how many changes of how many keys, columns to choose from, pages."""
        if self._producers is not None:
            return self._producer_words()
        model = self._model
        kinds = [str(kind) for kind in self.kinds]
        window = self._window(width, snapshot=self.snapshot, kinds=kinds, key=self.key)
        label = f"producer {model.producer}"
        if model.producer == "none":
            label += ", before and after worked out by a stream" if model.normalized else ", rows as written"
        parts = [
            self._title,
            label,
            f"{fmt.plural(model.changes, 'change')} of {fmt.plural(model.all_keys, 'key')}",
        ]
        parts += [self._note] if self._note else []
        cut = [c for c in model.commits if c.id in self._cut]
        parts += [f"first {c.changes:,} changes of {fmt.snapshot_id(c.id)}" for c in cut[:3]]
        keys = len(window.keys)
        shown = (
            f"keys {window.key_from + 1}–{window.key_from + keys} of {window.matching:,}"
            if keys
            else "no keys"
        )
        if model.all_keys > len(model.keys):
            shown += f", the last changed of {model.all_keys:,}"
        return {
            "title": "Changelog",
            "subtitle": " · ".join(part for part in parts if part),
            "shown": shown,
            "column": self._column(),
            "columns": list(model.columns[:MAX_CHIPS]),
            "raw": model.producer == "none",
            "pages": [window.key_from > 0, window.key_from + keys < window.matching],
        }

    def _producer_words(self) -> dict[str, Any]:
        assert self._producers is not None
        columns = next((p.model.columns for p in self._producers.producers if p.model.columns), ())
        return {
            "title": f"Key {fmt.key(self.key)} through the four producers",
            "subtitle": f"the same {fmt.plural(self._producers.writes, 'write')}",
            "column": self._column(),
            "columns": list(columns[:MAX_CHIPS]),
            "keys": list(self._producers.keys[:MAX_CHIPS]),
        }

    def text(self) -> str:
        """The changes in a terminal."""
        if self._producers is not None:
            return producers_text(self._producers, self.key, self._column())
        return text_form(self._model, self._column())

    def data(self) -> pa.Table:
        """The changes as read, with their snapshots; of producers one row each with what it cost."""
        if self._producers is None:
            return self._changes
        rows = [
            {
                "producer": p.name,
                "rows": p.rows,
                "files": p.files,
                "bytes": p.bytes,
                "first_snapshot": p.first,
                "last_snapshot": p.last,
                "sum": None if p.total is None else p.total.kept,
                "table_sum": None if p.total is None else p.total.table,
                "state": None if p.total is None else p.total.state,
                "error": p.error,
            }
            for p in self._producers.producers
        ]
        return pa.Table.from_pylist(rows)

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """A frame for each snapshot (of producers for each key); kinds and keys are filtered in the page."""
        spec = {"kind": "changelog", "reply": "changelog", "widths": list(widths)}
        state = {"key": "", "kinds": list(KINDS), "mode": self.mode, "page": 0, "columns": list(self.columns)}
        state |= {"snapshot": self.snapshot, "width": widths[0], "frame": {}, "hovered": "", "selected": []}
        words = {str(width): {**self.words(width=width), "pages": [False, False]} for width in widths}
        frames: dict[str, Any] = {}
        if self._producers is not None:
            state |= {"key": self.key, "snapshot": None}
            for width in widths:
                frames[str(width)] = {
                    key: self._of_key(key, width) for key in self._producers.keys[:MAX_CHIPS]
                }
        else:
            for width in widths:
                frames[str(width)] = {
                    str(commit.id): static.frame(self._at(commit.id, width)) for commit in self._model.commits
                } or {"": static.frame(self.figure(width=width))}
        return {**spec, "frames": frames, "words": words, "state": state}

    def _at(self, snapshot: int, width: float) -> Figure:
        window = self._window(width, snapshot=snapshot, kinds=KINDS, key="")
        return self._drawn(window, snapshot, width)

    def _of_key(self, key: str, width: float) -> dict[str, Any]:
        assert self._producers is not None
        drawn = side_by_side.producers_figure(self._producers, key=key, column=self._column(), width=width)
        return static.frame(drawn) | {"title": f"Key {fmt.key(key)} through the four producers"}
