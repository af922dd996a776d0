"""LsmLevels: the files of one bucket by level and key; for a table of many buckets an overview above it.

Traits: `snapshot`, `selected` (file names), `hovered`, `key_range` (shown part of the key axis), `mode`
keys | bytes, `opened` (bucket id), `colour_by`, `plan` (inputs and output of the next compaction,
outlined).
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from widgets import _format as fmt
from widgets import _static, _svg
from widgets._svg import Figure
from widgets._view import Source, View, module, option_map, title_of
from widgets.levels import figure as draw
from widgets.levels.model import (
    BucketCell,
    FileBox,
    LsmModel,
    Plan,
    bucket_cells,
    in_bucket,
    lsm_model,
    short_partition,
    text_form,
    worst,
)
from widgets.levels.overview import overview, overview_figure, places_for

LevelsAt = Callable[[int | None], pa.Table]
EXPORT_SNAPSHOTS, EXPORT_BUCKETS = 200, 400


class LsmLevels(View):
    """Levels of a table, of one of its buckets, or of the Arrow table of its live files.

    `levels_at(snapshot)` may give the files of a past snapshot where there is no table to ask.
    """

    _esm = module("levels/view.js", "renderLevels")
    mode = traitlets.Enum(["keys", "bytes"], "keys").tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)
    colour_by = traitlets.Enum(["runs", "files", "bytes", "deletes"], "runs").tag(sync=True)
    plan = traitlets.Dict().tag(sync=False)

    def __init__(
        self,
        source: Source | pa.Table,
        *,
        partition: str | None = None,
        bucket: int | None = None,
        snapshot: int | None = None,
        levels_at: LevelsAt | None = None,
        num_levels: int | None = None,
        trigger: int | None = None,
        stop_trigger: int | None = None,
        title: str = "",
        **kwargs: object,
    ) -> None:
        options = option_map(source)
        self._trigger = trigger or int(options.get("num-sorted-run.compaction-trigger", 5))
        self._stop = stop_trigger or int(options.get("num-sorted-run.stop-trigger", self._trigger + 3))
        self._num_levels = num_levels or int(options.get("num-levels", self._trigger + 1))
        self._partition, self._bucket = partition, bucket
        self._title = title or title_of(source)
        self._levels_at = levels_at or _reader(source)
        self._files = pa.table({})
        self._cells: tuple[BucketCell, ...] = ()
        self._slots = self._trigger
        self._model = lsm_model(self._files, num_levels=self._num_levels, l0_slots=self._slots)
        super().__init__(snapshot=snapshot, **kwargs)
        self.refresh()
        self.observe(lambda _change: self.refresh(), "snapshot")
        self.observe(lambda _change: self.redraw(), ["mode", "colour_by", "key_range"])
        self.observe(lambda _change: self._remodel(), "plan")
        self.observe(self._on_opened, "opened")

    def refresh(self) -> Self:
        """Read the files of the present snapshot again."""
        what = f"The levels of {fmt.snapshot_id(self.snapshot)} could not be read."
        self.guarded(self._load, what=what, next_step="The snapshot may have expired: go to a newer one.")
        return self

    def _load(self) -> None:
        files = self._levels_at(self.snapshot)
        self._files = in_bucket(files, self._partition, self._bucket)
        self._cells = bucket_cells(self._files)
        self._slots = max(self._slots, min(_most_level0_runs(self._files), self._stop))
        known = {cell.id for cell in self._cells}
        if self.opened not in known and self._cells:
            self.opened = worst(self._cells, 1)[0].id
        self._remodel()

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
        return lsm_model(
            files,
            num_levels=self._num_levels,
            partition=partition if opened else self._partition,
            bucket=int(number) if opened else self._bucket,
            snapshot=snapshot,
            title=self._title,
            l0_slots=self._slots,
            stop_trigger=self._stop,
            plan=self._plan_for(opened) if snapshot == self.snapshot else Plan(),
        )

    def _plan_for(self, opened: str) -> Plan:
        """The plan, if it is this bucket's."""
        if self.plan.get("bucket", opened) != opened:
            return Plan()
        return Plan(frozenset(self.plan.get("inputs", ())), self.plan.get("output_level"))

    def redraw(self) -> None:
        """The opened bucket, its cards, and the overview if there are several buckets."""
        model = self.model
        self.frame = {
            **self._above(self._cells, model, self.width),
            **self._one(model, self.width, self.mode),
        }

    def figure(self, *, width: float) -> Figure:
        """Overview (if there are several buckets) and the opened bucket."""
        model = self.model
        view = (float(self.key_range[0]), float(self.key_range[1])) if len(self.key_range) == 2 else None
        chosen = str(self.selected[0]) if self.selected else ""
        one = draw.levels_figure(model, width=width, mode=self.mode, view=view, selected=chosen)
        if len(self._cells) < 2:
            return one
        heading = _svg.text(16, 20, self._heading(model), size=13, fill="ink", weight=600)
        return _svg.stack([self._grid(self._cells, self.opened, width), Figure(width, 30, heading), one])

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and subtitle."""
        return self._words(self.model, self._cells)

    def _words(self, model: LsmModel, cells: tuple[BucketCell, ...]) -> dict[str, Any]:
        at = f" at {fmt.snapshot_id(model.snapshot)}" if model.snapshot is not None else ""
        if len(cells) < 2:
            parts = [fmt.plural(model.runs, "sorted run"), fmt.bytes_text(model.bytes)]
            parts += [model.place] if model.partition else []
        else:
            partitions = len({cell.partition for cell in cells})
            parts = [fmt.plural(partitions, "partition"), fmt.plural(len(cells), "bucket")]
            parts += [fmt.plural(sum(cell.files for cell in cells), "file")]
            parts.append(fmt.bytes_text(sum(cell.bytes for cell in cells)))
        return {"title": f"Levels{at}", "subtitle": " · ".join(parts)}

    def _heading(self, model: LsmModel) -> str:
        size = fmt.bytes_text(model.bytes)
        files = fmt.plural(len(model.files), "file")
        return f"{model.place} · {files} · {fmt.plural(model.runs, 'run')} · {size}"

    def _above(self, cells: tuple[BucketCell, ...], model: LsmModel, width: float) -> dict[str, Any]:
        """The frame's words and, for several buckets, the overview."""
        frame: dict[str, Any] = self._words(model, cells)
        if len(cells) < 2:
            return frame
        top = [[cell.id, _short(cell), str(cell.runs)] for cell in worst(cells, 5 if width >= 900 else 3)]
        return frame | {"overview": _svg.live(self._grid(cells, "", width)), "worst": top}

    def _grid(self, cells: tuple[BucketCell, ...], opened: str, width: float) -> Figure:
        places = places_for(width, cells)
        view = overview(cells, trigger=self._trigger, stop_trigger=self._stop, places=places)
        return overview_figure(view, width=width, colour_by=self.colour_by, opened=opened)

    def _one(self, model: LsmModel, width: float, mode: str) -> dict[str, Any]:
        """The opened bucket's picture and the cards behind its boxes."""
        view = (float(self.key_range[0]), float(self.key_range[1])) if len(self.key_range) == 2 else None
        drawn = draw.levels_figure(model, width=width, mode=mode, view=view)
        shown = draw.boxed(model, width=width, mode=mode, view=view)
        frame = _static.frame(drawn) | {"cards": cards(model, shown)}
        return frame | ({"opened": self._heading(model)} if len(self._cells) > 1 else {})

    def text(self) -> str:
        """The opened bucket in a terminal."""
        model = self.model
        more = f"\n{len(self._cells):,} buckets; opened {self.opened}" if len(self._cells) > 1 else ""
        return text_form(model) + more

    def data(self) -> pa.Table:
        """The live files as read."""
        return self._files

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """Frames of the opened bucket for linked snapshots, and of every bucket at the present one."""
        histories = {snapshot: self._files_at(snapshot) for snapshot in self._export_snapshots()}
        self._slots = max(
            self._slots, *(min(_most_level0_runs(files), self._stop) for files in histories.values())
        )
        frames = {str(width): self._export_frames(histories, width) for width in widths}
        state = {
            "snapshot": self.snapshot,
            "opened": self.opened,
            "mode": self.mode,
            "colour_by": self.colour_by,
        }
        state |= {"selected": self.selected, "hovered": "", "key_range": [], "width": widths[0], "frame": {}}
        return {"kind": "levels", "reply": "levels", "widths": list(widths), "frames": frames, "state": state}

    def _files_at(self, snapshot: int | None) -> pa.Table:
        if snapshot == self.snapshot:
            return self._files
        return in_bucket(self._levels_at(snapshot), self._partition, self._bucket)

    def _export_snapshots(self) -> list[int | None]:
        """The newest snapshots of a linked timeline, always with the present one."""
        ids: list[int] = []
        for peer in self._peers:
            ids += list(getattr(getattr(peer, "model", None), "ids", ()))
        newest = sorted({int(snapshot) for snapshot in ids})[-EXPORT_SNAPSHOTS:]
        return [*newest, self.snapshot] if self.snapshot not in newest else list(newest)

    def _export_frames(self, histories: Mapping[int | None, pa.Table], width: int) -> dict[str, Any]:
        base, buckets = {}, {}
        for snapshot, files in histories.items():
            cells = bucket_cells(files)
            present = snapshot == self.snapshot
            model = self._bucket_model(self.opened, snapshot, files)
            for colour in ("runs", "files", "bytes", "deletes") if present else ("runs",):
                base[f"{_js(snapshot)}|{colour}"] = self._above(cells, model, width)
            shown = [self.opened]
            if present:
                shown += [cell.id for cell in worst(cells, EXPORT_BUCKETS) if cell.id != self.opened]
            for opened in shown:
                one = self._bucket_model(opened, snapshot, files)
                for mode in ("keys", "bytes"):
                    buckets[f"{_js(snapshot)}|{opened}|{mode}"] = self._one(one, width, mode)
        return {"base": base, "buckets": buckets}


def _reader(source: Source | pa.Table) -> LevelsAt:
    if isinstance(source, pa.Table):
        return lambda _snapshot: source
    return lambda snapshot: source.inspect.levels(snapshot=snapshot)


def _js(snapshot: int | None) -> str:
    """As the page's `[snapshot, …].join("|")` spells it."""
    return "" if snapshot is None else str(snapshot)


def _short(cell: BucketCell) -> str:
    return f"{short_partition(cell.partition)}/{cell.bucket}" if cell.partition else f"bucket {cell.bucket}"


def _most_level0_runs(files: pa.Table) -> int:
    if not files.num_rows:
        return 0
    level0 = files.filter(pc.equal(files["level"], 0))
    if not level0.num_rows:
        return 0
    counts = level0.group_by(["partition", "bucket"]).aggregate([("run", "count_distinct")])
    return int(pc.max(counts["run_count_distinct"]).as_py())


def cards(model: LsmModel, files: list[tuple[int, FileBox]]) -> list[dict[str, Any]]:
    """What hover and selection show of each file that is drawn as a box."""
    found = []
    for at, file in files:
        lane = model.lanes[at]
        deletes = f"{file.deletes:,} ({fmt.percent(file.deletes, file.rows)})" if file.deletes else "0"
        found.append(
            {
                "name": file.name,
                "short": fmt.file_name(file.name),
                "level": file.level,
                "lane": at,
                "run": lane.note if lane.level == 0 else f"L{lane.level}",
                "bytes": fmt.bytes_text(file.bytes),
                "rows": f"{file.rows:,}",
                "keys": fmt.ABSENT if file.min_key is None else fmt.key_range(file.min_key, file.max_key),
                "from": " ".join(part for part in (file.origin, file.source) if part),
                "sequence": f"{file.min_sequence:,} … {file.max_sequence:,}",
                "deletes": deletes,
                "lo": round(file.lo, 6),
                "hi": round(file.hi, 6),
            }
        )
    return found
