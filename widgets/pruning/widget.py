"""PruningExplainer: a condition typed → partitions, buckets, files and row groups kept or skipped, and why.

The columns stand above it at a glance; a bar of theirs that is clicked becomes a condition. Traits: `where`
(SQL text), `snapshot`, `opened` (bucket id), `selected` (the file that is explained), `mode`
files | bytes (what the bars count). An error in the condition stands under its box, with its place; the last
good picture stays. Nothing typed is ever run: it becomes a predicate of the engine.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, Self, get_args

import pyarrow as pa
import pyarrow.compute as pc
import traitlets

import tablestore as ts
from widgets.chart.axes import Asked
from widgets.kit import format as fmt
from widgets.kit import svg
from widgets.kit.source import num_levels_of
from widgets.kit.svg import Figure
from widgets.kit.view import LINKED, View, module, require_source, title_of
from widgets.pruning import figure as draw
from widgets.pruning.glance import MOST_COLUMNS, glances
from widgets.pruning.model import (
    FileGroup,
    PruningModel,
    buckets_of,
    explained,
    group_marks,
    groups_of,
    lanes_of,
    steps_of,
    text_form,
)

MOST_STATISTICS = 2_000
"""Files of whose statistics the columns at a glance are made."""
FOOTERS, EXPORT_BUCKETS, EXPORT_FILES, CHIPS, HELP_COLUMNS = 64, 12, 40, 5, 40
MODES: tuple[draw.Mode, ...] = get_args(draw.Mode)


class Prunable(Protocol):
    """What the view needs of a table."""

    @property
    def inspect(self) -> Any:
        """The table's metadata."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        ...

    def scan(self, columns: Any = None, where: Any = None) -> Any:
        """A lazy read."""
        ...

    def at(self, *, snapshot: int) -> Any:
        """The table as it was."""
        ...


class PruningExplainer(View):
    """Which files a scan skips, by which rule, with the numbers compared.

    `table` is any table; `where` a condition as SQL text, such as "amount > 10 AND day = '2026-01-01'";
    `snapshot` an id (None: the newest). `title` stands above the picture. Other traits (`opened`, `mode`, …)
    go by keyword.

    >>> steps = widgets.PruningExplainer(orders, "order_id = 3").steps()
    >>> dict(zip(steps["rule"].to_pylist(), steps["files_skipped"].to_pylist()))["key range"]
    1
    """

    chart = Asked(x="rule", y="bytes")
    _esm = module("pruning")
    links = (*LINKED, "selected")
    where = traitlets.Unicode("").tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)
    mode: traitlets.Enum[draw.Mode] = traitlets.Enum(MODES, "files").tag(sync=True)

    def __init__(
        self,
        table: Prunable,
        where: str = "",
        *,
        snapshot: int | None = None,
        title: str = "",
        **kwargs: object,
    ) -> None:
        require_source(table, type(self).__name__)
        self._table, self._title = table, title or title_of(table)
        self._num_levels = num_levels_of(table)
        self._model = PruningModel(self._title, snapshot, "", self._num_levels)
        self._explanation: Any = None
        self._decisions = pa.table({})
        self._groups: tuple[FileGroup, ...] = ()
        self._good, self._problem, self._shown = "", dict[str, Any](), ""
        self._glance: tuple[int | None, list[dict[str, Any]]] = (None, [])  # snapshot, columns
        super().__init__(snapshot=snapshot, where=where, **kwargs)
        self.refresh()
        self.observe(lambda _change: self.refresh(), ["where", "snapshot"])
        self.observe(self._on_opened, "opened")
        self.observe(self._on_selected, "selected")
        self.observe(lambda _change: self.redraw(), "mode")

    @property
    def model(self) -> PruningModel:
        """What is shown."""
        return self._model

    @property
    def code(self) -> str:
        """The scan that is explained."""
        moment = ", ".join(f"{name}={value!r}" for name, value in self._moment().items())
        table = f"table.at({moment})" if moment else "table"
        where = f"where=ts.where({self._good!r})" if self._good else ""
        return f"{table}.scan({where}).explain()"

    def refresh(self) -> Self:
        """Plan the scan again."""
        self._problem = {}
        what = f"The files of {fmt.snapshot_id(self.snapshot)} could not be planned."
        step = "The snapshot may have expired: go to a newer one."
        self.guarded(self._load, what=what, next_step=step)
        return self

    def _refuse(self, error: Exception) -> None:
        """The error goes under the box; what is drawn stays."""
        start, part = getattr(error, "start", None), getattr(error, "part", "")
        self._problem = {"text": str(error), "start": start, "length": len(part)}
        self.frame = {**self.frame, "problem": self._problem} if self.frame else self._whole()

    def _moment(self) -> dict[str, Any]:
        """What `table.at` is asked for: the snapshot; if it expired, by the name of a tag that keeps it."""
        if self.snapshot is None:
            return {}
        inspect = self._table.inspect
        if hasattr(inspect, "tags") and not self._is_there(self.snapshot):
            tags = inspect.tags()
            kept = tags.filter(pc.equal(tags["snapshot_id"], self.snapshot))
            if len(kept):
                return {"tag": kept["tag_name"][0].as_py()}
        return {"snapshot": self.snapshot}

    def _is_there(self, snapshot: int) -> bool:
        try:
            self._table.at(snapshot=snapshot)
        except ts.NotFound:
            return False
        return True

    def _pinned(self) -> Any:
        moment = self._moment()
        return self._table.at(**moment) if moment else self._table

    def _load(self) -> None:
        table = self._pinned()
        try:
            explanation = table.scan(where=ts.where(self.where)).explain()
        except (ts.InvalidRequest, ts.NotFound) as error:
            self._refuse(error)
            return
        decisions = explanation.decisions()
        steps = steps_of(explanation.steps()) if explanation.plan.snapshot is not None else ()
        kept = steps[-1].files if steps else 0
        self._explanation, self._decisions, self._good = explanation, decisions, self.where
        self._model = PruningModel(
            self._title,
            explanation.plan.snapshot.id if explanation.plan.snapshot is not None else None,
            repr(explanation.plan.where) if explanation.plan.where is not None else "",
            self._num_levels,
            steps,
            groups_of(explanation.row_groups(limit=FOOTERS), files_left=kept),
            buckets_of(decisions),
        )
        self._look_at_columns(table, explanation.plan.snapshot, decisions.num_rows)
        reads, asked = {bucket.id: bucket.read for bucket in self._model.buckets}, self.where != self._shown
        self._shown = self.where
        # Another condition opens the bucket that it reads; the most is read in the first one.
        if self.opened not in reads or (asked and not reads[self.opened]):
            self.opened = next(iter(reads), "")
        self._open()

    def _look_at_columns(self, table: Any, snapshot: Any, files: int) -> None:
        """The columns at a glance of a snapshot, whatever the condition; none where its files are too
        many."""
        number = None if snapshot is None else snapshot.id
        if number is None or not 0 < files <= MOST_STATISTICS:
            self._glance = (number, [])
        elif self._glance[0] != number:
            columns = self._columns()[:MOST_COLUMNS]
            facts = table.scan().explain().columns(*(name for name, _, _ in columns))
            self._glance = (number, glances(facts, {name: note for name, _, note in columns}))

    def _on_opened(self, change: Mapping[str, Any]) -> None:
        if change["new"] in {bucket.id for bucket in self._model.buckets}:
            self._open()

    def _open(self) -> None:
        self._model = self._with_bucket(self.opened)
        if self._chosen() == "":
            self.selected = (self._model.first,) if self._model.first else ()
        self._explain()

    def _with_bucket(self, opened: str) -> PruningModel:
        """The model with the lanes of a bucket."""
        partition, _, number = opened.rpartition("/")
        if not number or not self._decisions.num_rows:
            return self._model
        here = pc.and_(
            pc.equal(self._decisions["partition"], partition),
            pc.equal(self._decisions["bucket"], int(number)),
        )
        levels = self._table.inspect.levels(self._model.snapshot, partition=partition)
        levels = levels.filter(pc.equal(levels["bucket"], int(number)))  # -2 too: rows that are postponed
        lanes, ticks = lanes_of(levels, self._decisions.filter(here))
        asked = self._explanation.asked_keys(partition, int(number))
        span = None if asked is None else (asked.low, asked.high, asked.text)
        return replace(self._model, opened=opened, lanes=lanes, ticks=ticks, asked=span)

    def _chosen(self) -> str:
        """The chosen file, if it is in the opened bucket."""
        name = str(self.selected[0]) if self.selected else ""
        return name if self._model.find(name) is not None else ""

    def _on_selected(self, _change: Mapping[str, Any]) -> None:
        self._explain()

    def _explain(self) -> None:
        """Read the row groups of the chosen file, and draw."""
        self._groups = self._groups_of(self._chosen())
        self.redraw()

    def _groups_of(self, name: str) -> tuple[FileGroup, ...]:
        mark = self._model.find(name)
        if mark is None or not mark.kept:
            return ()
        return group_marks(self._explanation.row_groups(files=[name]))

    def redraw(self) -> None:
        """Rules, lanes and panel as pictures of their own, so that a choice redraws no more than it must."""
        self.frame = self._whole()

    def _whole(self) -> dict[str, Any]:
        model, width, chosen = self._model, self.width, self._chosen()
        frame: dict[str, Any] = {
            **self.words(width=width),
            "problem": self._problem,
            "columns": self._columns(),
            "glance": self._glance[1],
        }
        rules = draw.rules_figure(model, width=width, mode=self.mode)
        frame |= {"rules": _live(rules, hatched=True), "label": draw.label(model)}
        if model.lanes:
            frame |= self._bucket_frame(model, width) | self._panel_frame(model, chosen, self._groups, width)
        return frame

    def _bucket_frame(self, model: PruningModel, width: float) -> dict[str, Any]:
        lanes = draw.lanes_figure(model, width=width)
        chips = [[b.id, b.label, f"{b.read:,}"] for b in model.buckets[: CHIPS if width >= 900 else 3]]
        cards = [
            {
                "name": mark.name,
                "short": fmt.file_name(mark.name),
                "verdict": "read" if mark.kept else f"skipped by {mark.letter}, {mark.rule}",
                "compared": mark.compared,
                "keys": mark.keys,
                "size": f"{fmt.bytes_text(mark.bytes)}, {fmt.plural(mark.rows, 'row')}",
            }
            for mark in model.files[:400]
        ]
        heading = draw.heading_figure(model, width=width)
        return {"heading": _live(heading), "lanes": _live(lanes), "chips": chips, "cards": cards}

    def _panel_frame(
        self, model: PruningModel, chosen: str, groups: tuple[FileGroup, ...], width: float
    ) -> dict[str, Any]:
        panel = draw.panel_figure(model, width=width, selected=chosen, groups=groups)
        return {"panel": _live(panel), "says": " ".join(explained(model.find(chosen), groups)[:2])}

    def _columns(self) -> list[list[str]]:
        """Names and types for the help under the box, keys and partition columns first."""
        keys = set(getattr(self._table, "primary_key", ()) or ())
        partitions = set(getattr(self._table, "partition_by", ()) or ())
        rows = []
        for f in self._table.schema:
            note = "partition" if f.name in partitions else "key" if f.name in keys else ""
            rows.append([f.name, str(f.type), note])
        ordered = sorted(rows, key=lambda row: ("partition", "key", "").index(row[2]))
        return ordered[:HELP_COLUMNS]

    def figure(self, *, width: float) -> Figure:
        """Rules, lanes and panel as one picture."""
        chosen = self._chosen()
        return draw.pruning_figure(
            self._model, width=width, mode=self.mode, selected=chosen, groups=self._groups
        )

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, and the conclusion."""
        model = self._model
        at = f" · {fmt.snapshot_id(model.snapshot)}" if model.snapshot is not None else ""
        if not model.steps:
            return {"title": "Why these files", "subtitle": f"{self._title}{at}"}
        read, whole = model.read, model.whole
        size = f"{fmt.bytes_text(read.bytes)} of {fmt.bytes_text(whole.bytes)}"
        words = f"reads {read.files:,} of {fmt.plural(whole.files, 'file')} · {size}{at}"
        return {"title": "Why these files", "subtitle": words}

    def text(self) -> str:
        """The funnel in a terminal."""
        return text_form(self._model)

    def data(self) -> pa.Table:
        """The engine's decision on every live file, with the numbers compared."""
        return self._decisions

    def steps(self) -> pa.Table:
        """Files and bytes left after each rule."""
        return self._explanation.steps()

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The rules by files and by bytes, the first buckets, and each file of theirs explained."""
        buckets = list(dict.fromkeys([self.opened, *(b.id for b in self._model.buckets[:EXPORT_BUCKETS])]))
        models = {bucket: self._with_bucket(bucket) for bucket in buckets if bucket}
        frames = {str(width): self._export_frames(models, width) for width in widths}
        shown = {"where": self._good, "selected": list(self.selected), "hovered": ""}
        spec = self.export_spec("pruning", widths, frames, "opened", "mode", "snapshot", **shown)
        first = {bucket: model.first for bucket, model in models.items()}
        return spec | {"columns": self._columns(), "glance": self._glance[1], "first": first}

    def _export_frames(self, models: Mapping[str, PruningModel], width: int) -> dict[str, Any]:
        rules = {
            mode: _live(draw.rules_figure(self._model, width=width, mode=mode), hatched=True)
            for mode in ("files", "bytes")
        }
        buckets = {bucket: self._bucket_frame(model, width) for bucket, model in models.items()}
        panels = {}
        for bucket, model in models.items():
            names = [mark.name for mark in model.files[:EXPORT_FILES]] if bucket == self.opened else []
            for name in dict.fromkeys([model.first, self._chosen(), *names]):
                mark = model.find(name)
                if mark is not None:
                    groups = self._groups_in(mark.kept, name)
                    panels[name] = self._panel_frame(model, name, groups, width)
        return {"rules": rules, "buckets": buckets, "panels": panels, "label": draw.label(self._model)}

    def _groups_in(self, kept: bool, name: str) -> tuple[FileGroup, ...]:
        return group_marks(self._explanation.row_groups(files=[name])) if kept else ()


def _live(figure: Figure, *, hatched: bool = False) -> str:
    body = svg.hatch() + figure.body if hatched else figure.body
    return svg.live(Figure(figure.width, figure.height, body))
