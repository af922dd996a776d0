"""AmplificationChart: write, read and space amplification over snapshots, linked to a timeline.

Traits: `snapshot` and `index` (the selected one), `hovered` (a position), `opened` (bucket id; "" all
buckets), `series` (every snapshot's words and places, from which the page moves its cursor by itself).
A long history is read in a thread behind a skeleton; `wait()` blocks until it is there.
"""

from collections.abc import Mapping
from typing import Any, Protocol, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.amplification import figure as draw
from widgets.amplification.model import (
    NAMES,
    AmplificationModel,
    NextAmplification,
    amplification_model,
    text_form,
)
from widgets.chart.axes import Asked
from widgets.kit import format as fmt
from widgets.kit import static
from widgets.kit.jobs import STATIC_PATIENCE, JobRunner, ViewJob, WorkingView
from widgets.kit.links import Settling
from widgets.kit.svg import Figure
from widgets.kit.view import module, option_map, require_source, title_of

NOTHING = pa.table({"snapshot_id": pa.array([], pa.int64())})


class Amplified(Protocol):
    """A table or a simulation."""

    @property
    def inspect(self) -> Any:
        """Its metadata: `amplification(per="snapshot", partition=, bucket=)`, `levels()`."""
        ...


class AmplificationChart(WorkingView):
    """Write, read and space amplification after each commit, and where the next compaction takes them.

    `source` is a table, a simulation, or the Arrow rows of `inspect.amplification(per="snapshot")`. `opened`
    is a bucket's id, such as "day=mon/0", to which the numbers are limited. `title` stands above the
    picture. Other traits (`width`, `snapshot`, …) go by keyword. The history is read in the background:
    `wait`; with `later` not before `read`.

    >>> widgets.AmplificationChart(orders).wait().data()["live_files"].to_pylist()
    [1, 2]
    """

    chart = Asked(x="snapshot_id", y=("write_amplification", "runs", "space_amplification"))
    _esm = module("amplification")
    index = traitlets.Int(-1).tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)
    series = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        source: Amplified | pa.Table,
        *,
        opened: str = "",
        title: str = "",
        later: bool = False,
        **kwargs: object,
    ) -> None:
        self._jobs, self._settling, self._loading = JobRunner("amplification"), Settling(self._agree), False
        require_source(source, type(self).__name__)
        self._source, self._title = source, title or title_of(source)
        self._rows = NOTHING
        self._model = amplification_model(NOTHING, title=self._title)
        super().__init__(opened=opened, **kwargs)
        self.observe(self._on_index, "index")
        self.observe(self._on_snapshot, "snapshot")
        self.observe(lambda _change: self.refresh(), "opened")
        self._later = later
        if later:
            self._loading = True
            self.redraw()
        else:
            self.refresh()

    def read(self) -> Self:
        """Read the history that was left for later."""
        if self._later:
            self._later = False
            self.refresh()
        return self

    @property
    def model(self) -> AmplificationModel:
        """The numbers as columns."""
        return self._model

    @property
    def code(self) -> str:
        """The line that gives these numbers."""
        return f'table.inspect.amplification(per="snapshot"{_arguments(self.opened)})'

    def refresh(self) -> Self:
        """Read the history again, in the background if it takes long. The latest stays followed."""
        if not self._later and not self._jobs.restart(self._work):
            self._loading = True
            self.redraw()
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the history is read."""
        self.read()
        return super().wait(timeout)

    def _work(self, job: ViewJob) -> None:
        def read() -> None:
            rows, opened = _rows_of(self._source, self.opened)
            after = _after_compaction(self._source, opened, rows) if rows.num_rows else None
            job.check()
            self._take(rows, opened, after)

        try:
            self.guarded(
                read,
                what="The history could not be read.",
                next_step="Check the table, then refresh().",
                job=job,
            )
        finally:
            self._loading = self._loading and job.stopped

    def guarded(self, load: Any, *, what: str, next_step: str, job: ViewJob | None = None) -> None:
        """As `View.guarded`; a job that was stopped leaves nothing behind."""

        def unless_stopped() -> None:
            try:
                load()
            except Exception:
                if job is None or not job.stopped:
                    raise

        super().guarded(unless_stopped, what=what, next_step=next_step)

    def _take(self, rows: pa.Table, opened: str, after: NextAmplification | None) -> None:
        led = any(hasattr(getattr(view, "model", None), "kinds") for view in self.group if view is not self)
        place = place_of(opened) or ("all buckets" if self.opened else "")
        options = option_map(self._source)
        model = amplification_model(rows, title=self._title, place=place, options=options, after=after)
        with self._settling:
            current, self._loading = self.snapshot, False
            follows = current is None or not len(self._model)
            follows = follows or (not led and self.index >= len(self._model) - 1)
            position = model.index_of(current) if current is not None else None
            first = current is not None and position is not None and self.index < 0
            keep = position if (first or not follows) and position is not None else len(model) - 1
            self._rows, self._model = rows, model
            self._settle(keep)
        self.series = draw.series(self._model)
        self.redraw()

    def _settle(self, index: int) -> None:
        """Make all traits name the same snapshot."""
        with self._settling:
            self.index = index
            if 0 <= index < len(self._model):
                self.snapshot = int(self._model.ids[index])
                self.selected = (self.snapshot,)

    def _agree(self) -> None:
        """Go to the snapshot that another thread has chosen meanwhile."""
        if 0 <= self.index < len(self._model) and self.snapshot != int(self._model.ids[self.index]):
            self._on_snapshot({"new": self.snapshot})

    def _on_index(self, change: Mapping[str, Any]) -> None:
        if not self._settling and len(self._model):
            self._settle(min(max(int(change["new"]), 0), len(self._model) - 1))

    def _on_snapshot(self, change: Mapping[str, Any]) -> None:
        if self._settling or change["new"] is None or not len(self._model):
            return
        position = self._model.index_of(int(change["new"]))
        if position is not None:
            self.index = position

    def redraw(self) -> None:
        """The charts without the cursor, and where it goes."""
        if self._loading:
            drawn = draw.skeleton(self.width)
        else:
            drawn = draw.amplification_figure(
                self._model, index=self.index, width=self.width, cursor=False, note=False
            )
        self.frame = {**self.words(width=self.width), **static.frame(drawn), "names": list(NAMES)}

    def figure(self, *, width: float) -> Figure:
        """The charts with the cursor; a history that is still being read is waited for a little."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        if self._loading:
            return draw.skeleton(width)
        return draw.amplification_figure(self._model, index=self.index, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and how much is shown."""
        model = self._model
        parts = [model.title, model.place]
        if self._loading:
            parts.append("reading the history …")
        elif len(model):
            parts.append(fmt.plural(len(model), "commit"))
            if model.since is not None and model.since > 1:
                parts.append(f"sums since {fmt.snapshot_id(model.since)}")
        else:
            parts.append("0 snapshots")
        return {"title": "Amplification", "subtitle": " · ".join(part for part in parts if part)}

    def text(self) -> str:
        """The charts in a terminal."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        return text_form(self._model, self.index)

    def data(self) -> pa.Table:
        """The rows as read; waits until they are."""
        self.wait()
        return self._rows

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The charts, and what to write at each snapshot."""
        model = self.wait().model
        frames = {
            str(width): static.frame(
                draw.amplification_figure(model, index=self.index, width=width, cursor=False, note=False)
            )
            for width in widths
        }
        traits = "index", "snapshot", "opened", "selected", "series"
        return self.export_spec("amplification", widths, frames, *traits, hovered="") | {"names": list(NAMES)}


def place_of(opened: str) -> str:
    """`l_year=1995 · bucket 1` of a bucket id; all buckets are not named."""
    partition, _, bucket = opened.rpartition("/")
    return " · ".join(part for part in (partition, f"bucket {bucket}" if opened else "") if part)


def _scope(opened: str) -> dict[str, object]:
    """The arguments that name the opened bucket."""
    partition, _, bucket = opened.rpartition("/")
    return {"partition": partition, "bucket": int(bucket)} if opened else {}


def _arguments(opened: str) -> str:
    return "".join(f", {name}={value!r}" for name, value in _scope(opened).items())


def _rows_of(source: Amplified | pa.Table, opened: str) -> tuple[pa.Table, str]:
    """The rows, and the bucket that they are of: "" for all."""
    if isinstance(source, pa.Table):
        return source, ""
    try:
        return source.inspect.amplification(per="snapshot", **_scope(opened)), opened
    except ts.InvalidRequest:  # a simulation knows single buckets only at its end
        if not opened:
            raise
        return source.inspect.amplification(per="snapshot"), ""


def _after_compaction(source: Any, opened: str, rows: pa.Table) -> NextAmplification | None:
    """What the engine expects of the next compaction; None where none is due or nobody can be asked."""
    if isinstance(source, pa.Table) or not hasattr(source, "compact"):
        return None
    scope = {name: value for name, value in _scope(opened).items() if value != ""}
    try:
        planned = source.compact(dry_run=True, **scope)
        forecast = planned.amplification_after(source.inspect.levels(**scope), rows)
    except Exception:  # a prediction is no reason to show nothing: the panel beside says what is wrong
        return None
    one_bucket = len({(pick.partition, pick.bucket) for pick in planned.picks}) == 1
    if forecast is None:
        return None
    return NextAmplification(
        forecast.write_amplification, forecast.runs if one_bucket else None, forecast.space_amplification
    )
