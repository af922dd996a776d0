"""MergeView: k sorted runs in a window of keys become one, step by step, under the table's merge engine.

Traits: `cursor` (the key that is merged last, −1: none yet), `mode` keys | columns, `engine`, `columns`
(chosen by name), `snapshot`, `key_range` (places on the bucket's key axis), `selected` (a file of linked
levels: its first keys are shown), `opened` (bucket id).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.chart.axes import Asked
from widgets.kit import format as fmt
from widgets.kit import static
from widgets.kit.svg import Figure
from widgets.kit.view import LINKED, View, module, option_map, require_source, title_of
from widgets.merge import figure as draw
from widgets.merge.model import COMPUTING, KEYS, MergeModel, MergingRows, merge_model, text_form

ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
MAX_CHIPS = 14
Options = Mapping[str, Any]


class Merges(Protocol):
    """What gives a window's merge: `engine` as asked for, `between` on the key axis."""

    def __call__(
        self, *, engine: str, snapshot: int | None, opened: str, between: tuple[float, float] | None
    ) -> MergingRows:
        """The merge of the first keys there."""
        ...


class MergeView(View):
    """How the runs of one bucket become one row a key: step by step, with the reason of each.

    `table` is a table with a primary key. `partition` ("day=mon") and `bucket` choose the bucket. `where`
    limits the keys: a predicate over key columns, or SQL text. `snapshot` is an id (None: the newest).
    `columns` are shown in the cells (none: the first that is no key). Other traits (`mode`, `cursor`, …) go
    by keyword.

    >>> widgets.MergeView(orders, where="order_id = 2").data()["why"].to_pylist()
    ['sequence 3 > 1: the newest row wins, of L0 #2.']
    """

    chart = Asked(x="fate")
    _esm = module("merge")
    unreadable = (
        "The merge could not be shown.",
        "Choose another engine, key range or bucket; the last picture stays.",
    )
    verbs = ("later", "earlier")
    _events: list[dict[str, Any]] | None = None
    _key: Sequence[str] | str = ()
    links = (*LINKED, "selected")
    cursor = traitlets.Int(-1).tag(sync=True)
    mode = traitlets.Enum(["keys", "columns"], "keys").tag(sync=True)
    engine = traitlets.Unicode("").tag(sync=True)
    columns = traitlets.Tuple().tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        table: ts.Table,
        *,
        partition: str | None = None,
        bucket: int | None = None,
        where: object = None,
        snapshot: int | None = None,
        columns: Sequence[str] = (),
        **kwargs: object,
    ) -> None:
        require_source(table, type(self).__name__)
        own = str(option_map(table).get("merge-engine", "deduplicate"))
        opened = "" if bucket is None else f"{partition or ''}/{bucket}"
        chosen = ts.where(where) if isinstance(where, str) else where
        merges = _of_table(table, own=own, partition=partition, where=chosen)
        self._where = chosen
        self._settings(merges, own=own, title=title_of(table), inspect=getattr(table, "inspect", None))
        super().__init__(snapshot=snapshot, engine=own, opened=opened, columns=tuple(columns), **kwargs)
        self._begin()

    @classmethod
    def of(
        cls,
        runs: Sequence[object],
        engine: str = "deduplicate",
        *,
        primary_key: Sequence[str] | str,
        options: Options | None = None,
        columns: Sequence[str] = (),
        drops_deletes: bool = True,
        title: str = "",
    ) -> Self:
        """The merge of runs without a table.

        `runs` are Arrow tables or lists of dicts, newest first; `engine` is the merge engine shown first.
        `primary_key` names the key columns. `options` hold for every engine, or for each its own:
        `{"aggregation": {…}}`. `columns` are shown in the cells. `drops_deletes`: whether the output is the
        oldest level, where deletes vanish. `title` stands above the picture.

        >>> runs = [[{"k": 1, "v": 2}], [{"k": 1, "v": 1}]]
        >>> widgets.MergeView.of(runs, "first-row", primary_key="k").data()["v"].to_pylist()
        [1]
        """
        view = cls.__new__(cls)
        merges = _of_runs(list(runs), primary_key, dict(options or {}), drops_deletes)
        view._where = None
        view._settings(merges, own=engine, title=title, inspect=None)
        View.__init__(view, engine=engine, columns=tuple(columns))
        view._begin()
        return view

    @classmethod
    def of_events(
        cls,
        events: Sequence[Mapping[str, Any]],
        engine: str = "deduplicate",
        *,
        primary_key: Sequence[str] | str,
        options: Options | None = None,
        columns: Sequence[str] = (),
        title: str = "",
    ) -> Self:
        """The merge of rows that come one at a time: the output is the state of a key after each; `feed`
        adds rows.

        `events` are dicts, the oldest first, with their `rowkind` among their columns; `cursor` steps
        through them. `engine`, `primary_key`, `options`, `columns` and `title` are as in `of`.

        >>> events = [{"k": 1, "v": 1}, {"k": 1, "v": 2}]
        >>> view = widgets.MergeView.of_events(events, primary_key="k")
        >>> view.feed({"k": 1, "v": 3, "rowkind": "-D"}).data()["fate"].to_pylist()
        ['kept', 'kept', 'dropped']
        """
        view = cls.__new__(cls)
        view._events = [dict(event) for event in events]
        view._where, view._key = None, primary_key
        view._settings(view._of_events(dict(options or {})), own=engine, title=title, inspect=None)
        View.__init__(view, engine=engine, columns=tuple(columns))
        view._begin()
        return view

    def feed(self, *events: Mapping[str, Any]) -> Self:
        """More events, the state after the last of them in view. Raises InvalidRequest where the view is not
        one of events, and what `ts.merging_events` raises; then nothing was fed."""
        if self._events is None:
            raise ts.InvalidRequest("this view is of runs: MergeView.of_events(events, …) takes events")
        before = list(self._events)
        self._events += [dict(event) for event in events]
        try:
            self._merges(engine=self.engine, snapshot=None, opened="", between=None)
        except ts.TablestoreError:
            self._events = before
            raise
        self._stepped = False
        return self.refresh()

    def _of_events(self, options: dict[str, Any]) -> Merges:
        """The last events of this view, as they are."""

        def merges(
            *, engine: str, snapshot: int | None, opened: str, between: tuple[float, float] | None
        ) -> MergingRows:
            chosen = _of_engine(options, engine)
            events = self._events
            return ts.merging_events(events, engine, primary_key=self._key, options=chosen, last=KEYS)

        return merges

    def _settings(self, merges: Merges, *, own: str, title: str, inspect: Any) -> None:
        self._merges, self._own, self._title, self._inspect = merges, own, title, inspect
        self._found: MergingRows | None = None
        self._model = MergeModel(engine=own)
        self._low: float | None = None
        self._passed: list[float | None] = []
        self._stepped = False

    def _begin(self) -> None:
        if self.engine in COMPUTING:
            self.mode = "columns"
        self.refresh()
        self.observe(lambda _change: self._reload(), ["snapshot", "key_range"])
        self.observe(self._on_opened, "opened")
        self.observe(self._on_engine, "engine")
        self.observe(self._on_selected, "selected")
        self.observe(self._on_cursor, "cursor")
        self.observe(lambda _change: self.redraw(), ["mode", "columns"])

    @property
    def model(self) -> MergeModel:
        """The window that is shown."""
        return self._model

    @property
    def code(self) -> str:
        """The call that gives what is shown."""
        if self._inspect is None:
            call = "merging(runs" if self._events is None else "merging_events(events"
            return f"ts.{call}, {self.engine!r}, primary_key={list(self._model.key_names)!r})"
        asked = [str(self.snapshot)] if self.snapshot is not None else []
        partition, _, bucket = self.opened.rpartition("/")
        asked += [f"partition={partition!r}"] if partition else []
        asked += [f"bucket={bucket}"] if bucket else []
        asked += [f"where=ts.where({str(self._where)!r})"] if self._where is not None else []
        if (between := self._between()) is not None:
            asked.append(f"between=({between[0]:.6g}, {between[1]:.6g})")
        if self.engine != self._own:
            asked.append(f"options={{'merge-engine': {self.engine!r}}}")
        return f"table.inspect.merging({', '.join(asked)})"

    def _on_opened(self, change: Mapping[str, Any]) -> None:
        if change["old"]:  # else it only says which bucket was chosen
            self._reload()

    def _reload(self) -> None:
        """Another place: from its first key on."""
        self._low, self._passed = None, []
        self._stepped = False
        self.refresh()

    def _load(self) -> None:
        try:
            merging = self._merges(
                engine=self.engine, snapshot=self.snapshot, opened=self.opened, between=self._between()
            )
        except ts.NotFound:
            if self.snapshot is None or not self.opened or self._inspect is None:
                raise
            self._nothing_there()
            return
        key = self._model.steps[self.cursor].key if 0 <= self.cursor < len(self._model.steps) else None
        self._found, self._model = merging, merge_model(merging)
        place = getattr(merging, "place", None)
        if not self.opened and place is not None and place.bucket is not None:
            self.opened = f"{place.partition}/{place.bucket}"
        keys = [step.key for step in self._model.steps]
        last = len(keys) - 1
        if not self._stepped:
            self.cursor = last
        elif self.cursor >= 0 and keys[self.cursor : self.cursor + 1] != [key]:
            self.cursor = keys.index(key) if key in keys else min(self.cursor, last)
        self.redraw()

    def _nothing_there(self) -> None:
        """The bucket that is opened has no files in a snapshot that was travelled to; raises NotFound where
        there is no such snapshot."""
        partition, _, bucket = self.opened.rpartition("/")
        self._inspect.levels(self.snapshot, partition=partition, bucket=int(bucket))
        place = f"{partition}/bucket-{bucket}" if partition else f"bucket-{bucket}"
        absent = f"No files in {place} at {fmt.snapshot_id(self.snapshot)}."
        self._found, self._model = None, MergeModel(engine=self.engine, absent=absent)
        self.cursor = -1
        self.redraw()

    def _between(self) -> tuple[float, float] | None:
        """The window's ends on the key axis."""
        low, high = (
            (float(self.key_range[0]), float(self.key_range[1])) if len(self.key_range) == 2 else (0.0, 1.0)
        )
        if self._low is None and not self.key_range:
            return None
        return (max(low, self._low if self._low is not None else low), high)

    def _on_engine(self, _change: Mapping[str, Any]) -> None:
        self.mode = "columns" if self.engine in COMPUTING else "keys"
        self.refresh()

    def _on_cursor(self, change: Mapping[str, Any]) -> None:
        self._stepped = True
        wanted = min(max(int(change["new"]), -1), len(self._model.steps) - 1)
        if wanted != self.cursor:
            self.cursor = wanted
            return
        self.redraw()

    def _on_selected(self, _change: Mapping[str, Any]) -> None:
        """A file chosen in linked levels: the window begins with its first key."""
        levels = getattr(self._inspect, "levels", None)
        if not self.selected or levels is None:
            return
        files = levels(snapshot=self.snapshot).to_pylist()
        file = next((f for f in files if f["file_name"] == self.selected[0]), None)
        if file is None or file["min_key_pos"] is None:
            return
        self._low, self._passed, self._stepped = float(file["min_key_pos"]), [None], False
        self.refresh()

    def later(self) -> Self:
        """The next keys."""
        place = getattr(self._found, "place", None)
        if place is not None and place.more and place.last is not None and place.last != self._low:
            self._passed.append(self._low)
            self._low, self._stepped = place.last, False
            self.refresh()
        return self

    def earlier(self) -> Self:
        """The keys before."""
        if self._passed:
            self._low, self._stepped = self._passed.pop(), False
            self.refresh()
        return self

    def figure(self, *, width: float) -> Figure:
        """The window as it is merged up to `cursor`."""
        return self._drawn(self.cursor, self.mode, width)

    def _drawn(self, cursor: int, mode: str, width: float) -> Figure:
        names = tuple(str(name) for name in self.columns)
        return draw.merge_figure(self._model, cursor=cursor, mode=mode, columns=names, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, place, engines and columns to choose from."""
        model = self._model
        what = "event" if model.events else "run"
        parts = [self._title, model.place, fmt.plural(len(model.runs) + model.hidden_runs, what)]
        parts += [f"{len(model.runs)} drawn"] if model.hidden_runs else []
        parts += [f"as if {self.engine}"] if self.engine != self._own and self._inspect is not None else []
        names = tuple(str(name) for name in self.columns)
        shown = draw.shown_columns(model, names, width=width) if model.columns else ()
        return {
            "title": "Merge",
            "subtitle": " · ".join(part for part in parts if part),
            "engines": list(ENGINES) if self.engine in ENGINES else [self.engine],
            "columns": [[name, name in shown] for name in model.columns[:MAX_CHIPS]],
            "earlier": bool(self._passed),
            "later": model.more,
            "code": self.code,
        }

    def text(self) -> str:
        """The window in a terminal."""
        names = tuple(str(name) for name in self.columns)
        shown = draw.shown_columns(self._model, names, width=1040) if self._model.columns else ()
        return text_form(self._model, shown, self.cursor, mode=self.mode)

    def data(self) -> pa.Table:
        """One row a key: what became of it and why, with the columns of the output."""
        if self._found is None:
            return pa.table({})
        outputs, rows = self._found.outputs, self._found.output_rows
        taken = set(outputs.column_names)
        names = [f"{name}_" if name in taken else name for name in rows.column_names]
        return pa.table([*outputs.columns, *rows.columns], names=[*outputs.column_names, *names])

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """A frame for each step, both modes, at each width."""
        steps = range(-1, len(self._model.steps))
        frames = {
            str(width): {
                f"{mode}|{cursor}": static.frame(self._drawn(cursor, mode, width))
                for mode in ("keys", "columns")
                for cursor in steps
            }
            for width in widths
        }
        words = {
            str(width): {**self.words(width=width), "later": False, "earlier": False} for width in widths
        }
        traits, bare = (
            ("cursor", "mode", "engine", "snapshot"),
            {"columns": [], "hovered": "", "selected": []},
        )
        return self.export_spec("merge", widths, frames, *traits, **bare) | {"words": words}


def _of_table(table: ts.Table, *, own: str, partition: str | None, where: Any) -> Merges:
    """Windows of a bucket of a table; another engine than its own as if it had that one."""

    def merges(
        *, engine: str, snapshot: int | None, opened: str, between: tuple[float, float] | None
    ) -> MergingRows:
        place, _, bucket = opened.rpartition("/")
        return table.inspect.merging(
            snapshot,
            partition=place or partition,
            bucket=int(bucket) if bucket else None,
            where=where,
            between=between,
            options={"merge-engine": engine} if engine != own else None,
            limit=KEYS,
        )

    return merges


def _of_runs(
    runs: list[object], primary_key: Sequence[str] | str, options: dict[str, Any], drops_deletes: bool
) -> Merges:
    """The one window of runs in memory."""

    def merges(
        *, engine: str, snapshot: int | None, opened: str, between: tuple[float, float] | None
    ) -> MergingRows:
        chosen = _of_engine(options, engine)
        return ts.merging(
            runs, engine, primary_key=primary_key, options=chosen, limit=KEYS, drops_deletes=drops_deletes
        )

    return merges


def _of_engine(options: dict[str, Any], engine: str) -> Options:
    """The options of one engine, where they are given by engine."""
    by_engine = any(isinstance(value, Mapping) for value in options.values())
    return options.get(engine, {}) if by_engine else options
