"""LsmLevels: the files of one bucket by level and key; for a table of many buckets an overview above it.

Traits: `snapshot`, `selected` (file names), `hovered`, `key_range` (shown part of the key axis, 0 … 1),
`mode` keys | bytes, `fill_by` level | origin (age of rows), `opened` (bucket id), `colour_by` (overview),
`entered` (the file whose row groups were asked for by Enter), `plan` (inputs and output of the next
compaction, outlined; with `running` the one at work). States are those of the source's `Moments`; of a long
history the page has a part, and the kernel sends another when a moment outside is looked at.
"""

import base64
from collections.abc import Mapping
from functools import partial
from typing import Any, Self, get_args

import pyarrow as pa
import pyarrow.compute as pc
import traitlets

import tablestore as ts
from widgets.chart.axes import Asked
from widgets.history.history import MOST, History, Sent
from widgets.history.moments import LevelsAt, Moments, moments_of
from widgets.kit import format as fmt
from widgets.kit import static, svg
from widgets.kit.jobs import JobRunner, ViewJob, WorkingView
from widgets.kit.source import num_levels_of
from widgets.kit.svg import Figure
from widgets.kit.view import LINKED, Source, module, option_map, require_source, title_of
from widgets.levels import figure as draw
from widgets.levels.boxes import FillBy, bucket_facts, cards
from widgets.levels.buckets import BucketCell, bucket_cells, worst
from widgets.levels.layout import Mode, lay_out, rows_kept
from widgets.levels.model import CompactionPlan, LsmModel, in_bucket, lsm_model, text_form
from widgets.levels.overview import (
    STEP_FILLS,
    STEP_INKS,
    ColourBy,
    overview,
    overview_figure,
    places_for,
)

SETTLES = 0.15
"""Seconds that a moment outside the part at hand is looked at before its part is read."""
KEPT = 20
"""Snapshots that only a tag keeps, whose pictures go into a page."""
FRAMED = 32
"""The room that the frame of the opened bucket takes below an overview."""
COLOURS: tuple[ColourBy, ...] = get_args(ColourBy)
MODES: tuple[Mode, ...] = get_args(Mode)
FILLS: tuple[FillBy, ...] = get_args(FillBy)


class LsmLevels(WorkingView):
    """Files by level and key: what a reader of a key must open, and what the next compaction merges.

    `source` is a table, a simulation, or the Arrow table of `inspect.levels()`. `partition` ("day=mon") and
    `bucket` limit it; several buckets stand as an overview above the opened one. `snapshot` is an id (None:
    the newest). `levels_at(snapshot)` may give the files of a past snapshot where there is no table to ask.
    `num_levels`, `trigger` and `stop_trigger` are for a source without options. `title` stands above the
    picture. Other traits (`mode`, `colour_by`, …) go by keyword.

    >>> print(widgets.LsmLevels(orders).text())
    shop.orders  bucket 0  2 runs  ...
    L0 #2  ...
    L0 #1  ...
    """

    chart = Asked(x="level", y="bytes", kind="bars")
    _esm = module("levels")
    links = (*LINKED, "selected")
    mode: traitlets.Enum[Mode] = traitlets.Enum(MODES, "keys").tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)
    colour_by: traitlets.Enum[ColourBy] = traitlets.Enum(COLOURS, "runs").tag(sync=True)
    fill_by: traitlets.Enum[FillBy] = traitlets.Enum(FILLS, "level").tag(sync=True)
    entered = traitlets.Unicode("").tag(sync=True)
    line = traitlets.Unicode("").tag(sync=True)
    local = traitlets.Bool(False).tag(sync=True)
    edits = traitlets.Bytes(b"").tag(sync=True)
    tail = traitlets.Bytes(b"").tag(sync=True)
    plan = traitlets.Dict().tag(sync=False)

    def __init__(
        self,
        source: Source | pa.Table,
        partition: str | None = None,
        bucket: int | None = None,
        *,
        snapshot: int | None = None,
        levels_at: LevelsAt | None = None,
        num_levels: int | None = None,
        trigger: int | None = None,
        stop_trigger: int | None = None,
        title: str = "",
        **kwargs: object,
    ) -> None:
        self._jobs = JobRunner("levels")  # first: `close` needs it, also after a refusal
        require_source(source, type(self).__name__)
        self._trigger, self._stop, self._num_levels = limits(source, trigger, stop_trigger, num_levels)
        self._source, self._partition, self._bucket = source, partition, bucket
        self._title = title or title_of(source)
        if levels_at is None and isinstance(source, pa.Table):
            levels_at = partial(_always, source)
        self._moments = moments_of(source) if levels_at is None else Moments(source, levels_at)
        self._files = pa.table({})
        self._drawn_of: History | None = None
        self._sent_of: History | None = None
        self._sent: Sent | None = None
        self._cells: tuple[BucketCell, ...] = ()
        self._model = lsm_model(self._files, num_levels=self._num_levels)
        super().__init__(snapshot=snapshot, **kwargs)
        self.refresh()
        self.observe(lambda _change: self._reload(), "snapshot")
        self.observe(lambda _change: self.redraw(), ["mode", "colour_by", "key_range", "fill_by"])
        self.observe(lambda _change: self._remodel(), "plan")
        self.observe(self._on_opened, "opened")
        self.observe(lambda _change: self._show_code(), "selected")

    def refresh(self) -> Self:
        """Read the files of the present snapshot again, and what has been committed since."""
        if self._moments.history is not None:
            self.read_history()
        else:
            self._moments.forget()
        return self._reload()

    def read_history(self) -> Self:
        """Read the life of the table, of a long one the part around the moment that is shown, so that the
        page draws these moments by itself: with little to read at once, so that a caller may do it in a
        thread."""
        named = self._moments.window
        self._sent_of = history = self._moments.read(self.snapshot)
        if history is None or len(history) > MOST:
            self._sent, self.edits, self.tail = None, b"", b""
            return self
        self._sent = Sent.of(history, self._sent)
        if self.edits != self._sent.base:
            self.edits = self._sent.base
        self.tail = self._sent.tail
        if self._moments.window != named:
            self.redraw()
        return self

    def _reload(self) -> Self:
        what = f"The levels of {fmt.snapshot_id(self.snapshot)} could not be read."
        self.guarded(self._load, what=what, next_step="The snapshot may have expired: go to a newer one.")
        return self

    def _load(self) -> None:
        files, history = self._read(self.snapshot), self._moments.history
        if files is self._files and history is self._drawn_of and "error" not in self.frame:
            self._follow()
            return
        self._files, self._drawn_of = files, history
        self._cells = bucket_cells(self._files)
        ids = {cell.id for cell in self._cells}
        if self.opened not in ids and self._cells:
            self.opened = worst(self._cells, 1)[0].id
        self._remodel()
        self._follow()

    def _read(self, snapshot: int | None) -> pa.Table:
        return in_bucket(self._moments.state(snapshot).files, self._partition, self._bucket)

    def _follow(self) -> None:
        """Send the part of the history that has the moment shown, if the page has another one."""
        history = self._moments.history
        if self._sent is None or history is None:
            return
        if history is not self._sent_of or not history.covers(self.snapshot):
            self._jobs.restart(self._read_part, patience=0.0)

    def _read_part(self, job: ViewJob) -> None:
        job.sleep(SETTLES)
        self.read_history()

    def _show_code(self) -> None:
        """Send the line of code that goes with the selection; the picture stays."""
        self.line = self.code

    def _on_opened(self, _change: Mapping[str, Any]) -> None:
        self.key_range = ()
        self._remodel()

    @property
    def model(self) -> LsmModel:
        """The opened bucket."""
        return self._model

    def _remodel(self) -> None:
        self._model = self._bucket_model(self.opened, self.snapshot, self._files)
        self.redraw()

    def _bucket_model(self, opened: str, snapshot: int | None, files: pa.Table) -> LsmModel:
        partition, _, number = opened.rpartition("/")
        history = self._moments.history
        slots, folded = rows_kept(history, opened, snapshot, self._stop)
        return lsm_model(
            files,
            num_levels=self._num_levels,
            partition=partition if opened else self._partition,
            bucket=int(number) if opened else self._bucket,
            snapshot=snapshot,
            title=self._title,
            l0_slots=slots,
            folded=folded,
            stop_trigger=self._stop,
            plan=self._plan_for(opened) if snapshot == self.snapshot else CompactionPlan(),
        )

    def _plan_for(self, opened: str) -> CompactionPlan:
        """The plan, if it is this bucket's."""
        if self.plan.get("bucket", opened) != opened:
            return CompactionPlan()
        return CompactionPlan.of(self.plan)

    def redraw(self) -> None:
        """The opened bucket, its cards, and the overview if there are several buckets."""
        model = self.model
        frame = self._above(self._cells, model, self.width) | self._about(model, self.width)
        if not self._drawn_there():
            frame |= self._one(model, self.width, self.mode)
        self.frame = frame

    def _drawn_there(self) -> bool:
        """Whether the page draws this moment by itself: it has its facts, and no plan must be shown."""
        history = self._moments.history if self._sent is not None else None
        is_covered = history is not None and history.covers(self.snapshot)
        return self.local and is_covered and not self._plan_for(self.opened).inputs

    def _about(self, model: LsmModel, width: float) -> dict[str, Any]:
        """What the frame is of, and what the page needs to draw the bucket at other moments."""
        width -= FRAMED if len(self._cells) > 1 else 0
        of = [self.snapshot, self.opened, self.mode, self.fill_by, list(self.key_range)]
        cells = {"trigger": self._trigger, "stop": self._stop, "fills": STEP_FILLS, "inks": STEP_INKS}
        sheet = draw.sheet(model, width=width) | {"width": width, "cells": cells}
        placed = bool(model.partition or self._bucket is not None)
        return {"of": of, "sheet": sheet | {"placed": placed, "window": self._moments.window}}

    def figure(self, *, width: float) -> Figure:
        """Overview (if there are several buckets) and the opened bucket."""
        model = self.model
        chosen = str(self.selected[0]) if self.selected else ""
        picture = draw.levels_figure(
            model, width=width, selected=chosen, mode=self.mode, view=self._view(), fill_by=self.fill_by
        )
        if len(self._cells) < 2:
            return picture
        words = svg.fit_place(self._heading(model), width - 32, size=13, weight=600)
        heading = svg.text(16, 20, words, size=13, fill="ink", weight=600)
        return svg.stack([self._grid(self._cells, self.opened, width), Figure(width, 30, heading), picture])

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and subtitle."""
        return self._words(self.model, self._cells)

    def _words(self, model: LsmModel, cells: tuple[BucketCell, ...]) -> dict[str, Any]:
        at = f" at {fmt.snapshot_id(model.snapshot)}" if model.snapshot is not None else ""
        if len(cells) < 2:
            parts = [model.runs_text, fmt.bytes_text(model.bytes)]
            parts += [model.place] if model.partition or self._bucket is not None else []
        else:
            partitions = len({cell.partition for cell in cells})
            parts = [fmt.plural(partitions, "partition"), fmt.plural(len(cells), "bucket")]
            parts += [fmt.plural(sum(cell.files for cell in cells), "file")]
            parts.append(fmt.bytes_text(sum(cell.bytes for cell in cells)))
        parts += [self._moments.window] if self._moments.window else []
        return {"title": f"Levels{at}", "subtitle": " · ".join(parts)}

    def _heading(self, model: LsmModel) -> str:
        size = fmt.bytes_text(model.bytes)
        parts = [model.place, fmt.plural(model.count, "file")]
        parts += [fmt.plural(model.runs, "run")] if model.keyed else []
        return " · ".join([*parts, size])

    def _above(
        self, cells: tuple[BucketCell, ...], model: LsmModel, width: float, colour: ColourBy | None = None
    ) -> dict[str, Any]:
        """The frame's words and, for several buckets, the overview."""
        frame: dict[str, Any] = self._words(model, cells)
        if len(cells) < 2:
            return frame
        most = 5 if width >= 900 else 3
        top = [[cell.id, _short(cell), str(cell.runs)] for cell in worst(cells, most)]
        over = svg.live(self._grid(cells, "", width, colour))
        return frame | {"overview": over, "worst": top, "worst_most": most}

    def _grid(
        self, cells: tuple[BucketCell, ...], opened: str, width: float, colour: ColourBy | None = None
    ) -> Figure:
        places = places_for(width, cells)
        view = overview(cells, trigger=self._trigger, stop_trigger=self._stop, places=places)
        return overview_figure(view, width=width, colour_by=colour or self.colour_by, opened=opened)

    def _view(self) -> tuple[float, float] | None:
        """The shown part of the key axis."""
        if len(self.key_range) != 2:
            return None
        low, high = sorted(min(max(float(end), 0.0), 1.0) for end in self.key_range)
        return (low, high) if high - low > 1e-9 else None

    def _one(self, model: LsmModel, width: float, mode: Mode) -> dict[str, Any]:
        """The opened bucket's picture and the cards behind its boxes."""
        width -= FRAMED if len(self._cells) > 1 else 0
        layout = lay_out(model, width=width, mode=mode, view=self._view())
        drawn = draw.levels_figure(model, width=width, fill_by=self.fill_by, layout=layout)
        frame = static.frame(drawn) | {"cards": cards(model, layout.boxes), "keyed": model.keyed}
        frame["bucket"] = bucket_facts(model)
        return frame | ({"opened": self._heading(model)} if len(self._cells) > 1 else {})

    def text(self) -> str:
        """The opened bucket in a terminal."""
        model = self.model
        more = f"\n{len(self._cells):,} buckets; opened {self.opened}" if len(self._cells) > 1 else ""
        return text_form(model) + more

    def data(self) -> pa.Table:
        """The live files as read."""
        return self._files

    @property
    def file(self) -> dict[str, Any]:
        """The selected file as a row of `inspect.levels()`; empty without a selection."""
        chosen = pc.equal(self._files["file_name"], str(self.selected[0])) if self.selected else None
        rows = self._files.filter(chosen).to_pylist() if chosen is not None else []
        return rows[0] if rows else {}

    @property
    def code(self) -> str:
        """The Python line that gives what is shown, limited to the selected file if there is one."""
        partition, _, number = self.opened.rpartition("/")
        asked = [] if self.snapshot is None else [str(self.snapshot)]
        asked += [f"partition={partition!r}"] if partition else []
        asked += [f"bucket={number}"] if number else []
        line = f"{variable(self._title)}.inspect.levels({', '.join(asked)})"
        return f'{line}.filter(pc.field("file_name") == {self.selected[0]!r})' if self.selected else line

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The present frame, and the life of the table, from which the page draws all else."""
        if self._sent is None:
            self.guarded(self.read_history, what="The history could not be read.", next_step="Export again.")
        kept = self._kept_alone()
        frames = {str(width): self._export_frames(width, kept) for width in widths}
        state: dict[str, Any] = {
            "snapshot": self.snapshot,
            "opened": self.opened,
            "mode": self.mode,
            "colour_by": self.colour_by,
            "fill_by": self.fill_by,
            "entered": "",
        }
        state |= {"selected": self.selected, "hovered": "", "key_range": [], "width": widths[0], "frame": {}}
        spec = {"kind": "levels", "reply": "levels", "widths": list(widths), "frames": frames, "state": state}
        packed = [base64.b64encode(part).decode() for part in (self.edits, self.tail)]
        return spec | {"edits": packed, "limits": self._limits(kept)}

    def _known(self) -> set[int]:
        """The snapshots that linked timelines know, without the one that is shown."""
        models: list[Any] = [getattr(peer, "model", None) for peer in self._peers]
        return {int(at) for model in models if hasattr(model, "tags") for at in model.ids} - {self.snapshot}

    def _uncovered(self) -> list[int]:
        """Those of them that the edits do not give, the newest first."""
        history = self._moments.history if self.edits else None
        return sorted((at for at in self._known() if not (history and history.covers(at))), reverse=True)

    def _kept_alone(self) -> dict[int, LsmModel]:
        """The opened bucket in snapshots that only a tag keeps: before the oldest of the others."""
        models, oldest = {}, self._moments.oldest
        alone = [at for at in self._uncovered() if oldest is None or at < oldest] if self.edits else []
        for at in alone[:KEPT]:
            try:
                models[at] = self._bucket_model(self.opened, at, self._read(at))
            except ts.NotFound:
                continue
        return models

    def _limits(self, kept: Mapping[int, LsmModel]) -> str:
        """What a page leaves out; empty if it holds everything."""
        missing = len(self._uncovered()) - len(kept)
        if missing <= 0:
            return ""
        history = self._moments.history if self.edits else None
        there = "the present"
        if history is not None:
            there = self._moments.window or f"moments #{history.first} – #{history.last}"
        return f"Levels in this file: {there}; a kernel shows the other {fmt.plural(missing, 'snapshot')}."

    def _export_frames(self, width: int, kept: Mapping[int, LsmModel]) -> dict[str, Any]:
        """The present: what stands above for each colour, the opened bucket in both modes; and the snapshots
        that a tag keeps."""
        model = self.model
        above = {colour: self._above(self._cells, model, width, colour) for colour in COLOURS}
        by_mode = {mode: self._one(model, width, mode) for mode in MODES}
        tagged = {
            str(at): {
                "words": self._words(old, ()),
                "one": {mode: self._one(old, width, mode) for mode in MODES},
            }
            for at, old in kept.items()
        }
        return {"above": above, "one": by_mode, "about": self._about(model, width), "kept": tagged}


def _always(files: pa.Table, _snapshot: int | None) -> pa.Table:
    return files


def _short(cell: BucketCell) -> str:
    return (
        f"{fmt.short_partition(cell.partition)}/{cell.bucket}" if cell.partition else f"bucket {cell.bucket}"
    )


def variable(title: str) -> str:
    """A name for the table in code: the last part of its own, or `table`."""
    last = title.rpartition(".")[2]
    return last if last.isidentifier() else "table"


def limits(
    source: object, trigger: int | None, stop: int | None, num_levels: int | None
) -> tuple[int, int, int]:
    """Compaction trigger, stop trigger and number of levels: as given, of the table, or the defaults."""
    options = option_map(source)
    trigger = trigger or int(options.get("num-sorted-run.compaction-trigger", 5))
    stop = stop or int(options.get("num-sorted-run.stop-trigger", trigger + 3))
    return trigger, stop, num_levels or num_levels_of(source, trigger)
