"""CompactionPlay: one compaction of a bucket in four captions that one walks through or lets play.

Traits: `index` (the scene), `snapshot` (the newest compaction at or before it is played), `opened` (bucket
id). All scenes are drawn by Python when a compaction is chosen; playing them asks nobody.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import traitlets

from widgets.kit import format as fmt
from widgets.kit import static
from widgets.kit.svg import Figure
from widgets.kit.view import View, module, require_source, title_of
from widgets.play.figure import play_figure
from widgets.play.load import compaction_of, play_model
from widgets.play.model import CAPTIONS, PlayModel, text_form


class CompactionPlay(View):
    """One compaction as it went: the rule with its sum, the runs it takes, rows that merge, before → after.

    `source` is a table or a simulation. The newest compaction at or before `snapshot` (None: the newest of
    all) is played, of `partition` and `bucket` if they are given. `index` is the scene. Other traits
    (`width`, …) go by keyword.

    >>> _ = orders.compact(full=True)
    >>> play = widgets.CompactionPlay(orders)
    >>> play.data()["says"].to_pylist()[-1]
    '4 → 3 rows, ... KiB → ... KiB; runs 2 → 1.'
    """

    _esm = module("play")
    unreadable = ("This compaction cannot be played.", "Choose another snapshot.")
    links = ("snapshot", "opened")
    index = traitlets.Int(0).tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)
    scenes: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)

    def __init__(
        self,
        source: Any,
        snapshot: int | None = None,
        *,
        partition: str | None = None,
        bucket: int | None = None,
        index: int = 0,
        **kwargs: object,
    ) -> None:
        require_source(source, type(self).__name__)
        self._source = source
        self._partition = partition
        self._model = PlayModel(title_of(source))
        opened = "" if bucket is None else f"{partition or ''}/{bucket}"
        super().__init__(snapshot=snapshot, opened=opened, index=index, **kwargs)
        self.refresh()
        self.observe(lambda _change: self.refresh(), ["snapshot", "opened"])
        self.observe(lambda _change: self._show(), "index")

    @property
    def model(self) -> PlayModel:
        """The compaction that is played."""
        return self._model

    @property
    def code(self) -> str:
        """The call that gives its record."""
        at = f"  # snapshot {self._model.snapshot}" if self._model.record else ""
        return f"table.inspect.compactions(){at}"

    @traitlets.validate("index")
    def _in_scenes(self, proposal: Mapping[str, Any]) -> int:
        return max(int(proposal["value"]), 0)

    def _load(self) -> None:
        partition, _, number = self.opened.rpartition("/")
        chosen: dict[str, Any] = {
            "partition": partition if self.opened else self._partition,
            "bucket": int(number) if self.opened else None,
        }
        record = compaction_of(self._source, self.snapshot, **chosen)
        if record != self._model.record or not self.frame:
            title = title_of(self._source)
            self._model = PlayModel(title) if record is None else play_model(self._source, record)
            self.redraw()

    def redraw(self) -> None:
        """Draw every scene."""
        self.scenes = self._frames(self.width)
        self._show()

    def _frames(self, width: int) -> list[dict[str, Any]]:
        count = max(len(self._model.scenes), 1)
        return [static.frame(play_figure(self._model, at=at, width=width)) for at in range(count)]

    def _show(self) -> None:
        at = min(self.index, len(self.scenes) - 1)
        self.frame = {**self.words(width=self.width), **self.scenes[at]}

    def figure(self, *, width: float) -> Figure:
        """The scene with its captions."""
        return play_figure(self._model, at=self.index, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, which compaction, which bucket."""
        model, at = self._model, ""
        if model.record:
            place = model.before.place if model.before is not None else model.bucket_id
            at = f"{fmt.snapshot_id(model.snapshot or 0)} COMPACT · {place}"
        return {"title": f"{model.title} · compaction" if model.title else "Compaction", "subtitle": at}

    def text(self) -> str:
        """The captions in a terminal."""
        return text_form(self._model)

    def data(self) -> pa.Table:
        """The scenes: caption and sentence."""
        scenes = self._model.scenes
        return pa.table(
            {
                "caption": pa.array([CAPTIONS[caption] for caption, _ in scenes], pa.string()),
                "says": pa.array([self._model.says(at) for at in range(len(scenes))], pa.string()),
            }
        )

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """Every scene at every width."""
        at = self._model.snapshot
        spec = self.export_spec("play", widths, {}, "index", "opened", snapshot=at, scenes=[])
        return spec | {"scenes": {str(width): self._frames(width) for width in widths}}
