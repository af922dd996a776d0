"""BarChart: the rows of a query as bars that move when the rows change.

Traits: `index`, which group is shown. `watch` reads the rows again in a thread of its own, as often as asked,
and draws only what has changed; every reading holds the lock.
"""

import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.bars.figure import bars_figure
from widgets.bars.model import BarsModel, bars_model, text_form
from widgets.kit import format as fmt
from widgets.kit import static
from widgets.kit.svg import Figure
from widgets.kit.view import module
from widgets.kit.watch import WatchingView

EXPORT_GROUPS = 100


class BarChart(WatchingView):
    """The rows of a query as bars, one for each `label` as long as its `value`, in pages by `group`.

    `rows` are an Arrow table, what has `to_arrow` (a scan, a result of SQL), or a function that gives one of
    them anew at each look. `index` is the place of the group that is shown first. `follow` is the seconds
    between two looks (0: none), see `watch`. `title` stands above the picture. Other traits (`width`, …) go
    by keyword.

    >>> chart = widgets.BarChart(orders.scan(), label="status", value="order_id", title="orders")
    >>> chart.model.bars[0][0].label
    'paid'
    """

    links = ()
    _esm = module("bars")
    unreadable = ("The rows could not be read.", "Check the query.")
    index = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        rows: Any,
        *,
        label: str,
        value: str,
        group: str = "",
        title: str = "",
        index: int = 0,
        follow: float = 0.0,
        **kwargs: object,
    ) -> None:
        if not (callable(rows) or isinstance(rows, pa.Table) or hasattr(rows, "to_arrow")):
            raise ts.InvalidRequest(
                f"BarChart takes rows or a function that gives them, not {type(rows).__name__}"
            )
        self._rows, self._columns = rows, {"label": label, "value": value, "group": group, "title": title}
        self._read = pa.table({})
        self._model: BarsModel | None = None
        self._reading = threading.RLock()
        super().__init__(**kwargs)
        self.observe(lambda _change: self.redraw(), "index")
        self.refresh()
        self.index = index
        if follow:
            self.watch(float(follow))

    @property
    def model(self) -> BarsModel:
        """The bars as values."""
        if self._model is None:
            empty = pa.table({name: pa.array([], pa.int64()) for name in filter(None, self._names)})
            return bars_model(empty, **self._columns)
        return self._model

    @property
    def _names(self) -> list[str]:
        return [self._columns[part] for part in ("label", "value", "group")]

    @traitlets.validate("index")
    def _there(self, proposal: Mapping[str, Any]) -> int:
        return min(max(int(proposal["value"]), 0), max(len(self.model.groups) - 1, 0))

    def _load(self) -> None:
        table: Any = self._rows() if callable(self._rows) else self._rows
        rows = table if isinstance(table, pa.Table) else table.to_arrow()
        if self._model is not None and rows.equals(self._read) and "error" not in self.frame:
            return
        shown = self.model.groups[self.index] if self.index < len(self.model.groups) else None
        self._model, self._read = bars_model(rows, **self._columns), rows
        if shown in self._model.groups:
            self.index = self._model.groups.index(shown)  # the same group, also when others came before it
        else:
            self.index = self.index
        self.redraw()

    def figure(self, *, width: float) -> Figure:
        """The picture at a width."""
        return bars_figure(self.model, index=self.index, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, what is shown, and the names of the groups."""
        return self._words(self.index)

    def _words(self, index: int) -> dict[str, Any]:
        model = self.model
        bars = len(model.bars[index]) if index < len(model.bars) else 0
        parts = [f"{model.value} by {model.label}", model.group_text(index), fmt.plural(bars, "bar")]
        title = model.title or model.value
        return {"title": title, "subtitle": " · ".join(filter(None, parts)), "groups": list(model.groups)}

    def text(self) -> str:
        """The bars in a terminal."""
        return text_form(self.model, self.index)

    def chart_rows(self) -> pa.Table:
        """The rows of the group that is shown."""
        model = self.model
        bars = model.bars[self.index] if self.index < len(model.bars) else ()
        labels = pa.array([bar.label for bar in bars], pa.string())
        return pa.table(
            [labels, pa.array([bar.value for bar in bars], pa.float64())], [model.label, model.value]
        )

    def data(self) -> pa.Table:
        """The rows as read."""
        return self._read

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """A frame for each group, of many groups for those around the one shown."""
        count = max(len(self.model.groups), 1)
        first = min(max(self.index - EXPORT_GROUPS // 2, 0), max(count - EXPORT_GROUPS, 0))
        pages = range(first, min(first + EXPORT_GROUPS, count))
        frames = {
            str(width): {
                str(n): static.frame(bars_figure(self.model, index=n, width=width)) | self._words(n)
                for n in pages
            }
            for width in widths
        }
        return {
            "kind": "bars",
            "reply": "bars",
            "widths": sorted(widths, reverse=True),
            "frames": frames,
            "first": first,
            "last": pages[-1],
            "limits": f"{len(pages)} of {count} pages are in this file" if len(pages) < count else "",
            "state": {"width": widths[0], "frame": {}, "index": self.index},
        }
