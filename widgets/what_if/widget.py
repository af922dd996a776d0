"""WhatIf: one history or workload under two sets of options, on one timeline.

Traits: `index` (commit) and `snapshot`, `opened` (bucket id), `form` (B's options as the fields show them),
`now` (levels and words at the selected commit), `peek` (words at the hovered one), `progress` of a replay.
Replays work in a thread: Cancel acts at once, and the last good picture stays. `comparison` is the engine's
own value behind the picture.
"""

from collections.abc import Mapping
from typing import Any, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.chart.axes import Asked
from widgets.kit import format as fmt
from widgets.kit import static, svg
from widgets.kit.jobs import STATIC_PATIENCE, JobRunner, Stopped, ViewJob, WorkingView
from widgets.kit.links import Settling
from widgets.kit.svg import Figure
from widgets.kit.view import module, require_source, title_of
from widgets.what_if import figure as draw
from widgets.what_if.model import FIELDS, WhatIfModel, levels_pair, text_form, what_if_model

EXPORT_COMMITS = 120
PROGRESS_STEPS = 50
"""How often a replay shows its progress, at most."""

NEXT = "Check the options of B, then Replay."


class WhatIf(WorkingView):
    """One history or workload under two sets of options: amplification, stalls and levels side by side.

    `source` is a table, a `Workload` of `tablestore.insight.simulator`, or a comparison made before.
    `options` are those of side B. `baseline` holds those of side A (None: the source's own). `title` stands
    above the picture; `opened` is a bucket's id. What `ts.what_if` takes beside them, and other traits, go by
    keyword. Replays run in the background: `wait`.

    >>> view = widgets.WhatIf(orders, {"num-sorted-run.compaction-trigger": 1}).wait()
    >>> view.comparison.reproduced
    True
    """

    chart = Asked(x="variant", y=("bytes_compacted", "bytes_moved"))
    _esm = module("what_if")
    verbs = ("cancel",)
    index = traitlets.Int(-1).tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)
    form = traitlets.Dict().tag(sync=True)
    now = traitlets.Dict().tag(sync=True)
    peek = traitlets.Dict().tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        source: Any,
        options: Mapping[str, Any],
        baseline: Mapping[str, Any] | None = None,
        *,
        title: str = "",
        opened: str = "",
        **kwargs: Any,
    ) -> None:
        self._jobs, self._settling = JobRunner("what-if"), Settling(self._agree)
        require_source(source, type(self).__name__)
        own = {name: value for name, value in kwargs.items() if name in self.class_trait_names()}
        self._settings = {name: value for name, value in kwargs.items() if name not in own}
        self._source, self._options = source, {key: str(value) for key, value in options.items()}
        self._baseline = dict(baseline) if baseline is not None else None
        self._title = title or title_of(source)
        self._found: Any = None
        self._afresh = False
        self._model: WhatIfModel | None = None
        super().__init__(opened=opened, **own)
        self.observe(self._on_index, "index")
        self.observe(self._on_snapshot, "snapshot")
        self.observe(self._on_opened, "opened")
        self.observe(lambda _change: self._show_peek(), "hovered")
        self.refresh()

    @property
    def comparison(self) -> Any:
        """The engine's comparison: `differences`, `verdict()`, `trust`, `reproduced`, `to_arrow()`."""
        return self._found

    @property
    def model(self) -> WhatIfModel | None:
        """What is shown; None until the first replay is done."""
        return self._model

    @property
    def options(self) -> dict[str, str]:
        """The options of B."""
        return dict(self._options)

    @property
    def code(self) -> str:
        """The line that gives these numbers."""
        more = f", baseline={self._baseline!r}" if self._baseline is not None else ""
        if hasattr(self._source, "what_if"):
            return f"table.what_if({self._options!r}{more})"
        more += "".join(f", {name}={value!r}" for name, value in self._settings.items())
        return f"ts.what_if(workload, {self._options!r}{more})"

    def refresh(self) -> Self:
        """Read the history again and replay both sides, in the background."""
        self._afresh = True
        return self._replay()

    def replay(self, options: Mapping[str, Any]) -> Self:
        """Replay B under other options, in the background; A stays as it is."""
        self._options = {key: str(value) for key, value in options.items()}
        return self._replay()

    def _replay(self) -> Self:
        self.progress = {"busy": True, "share": 0.0, "text": "reading the history …"}
        if not self._jobs.restart(self._work) and self._model is None:
            self.redraw()
        return self

    def _work(self, job: ViewJob) -> None:
        before = None if self._afresh else self._found
        failure: dict[str, str] | None = None
        try:
            compared = self._compared(before, job)
            job.check()
            self._afresh = False
            self._take(compared)
        except Stopped:
            pass
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            failure = {"what": "The replay could not be made.", "text": text, "next": NEXT}
        finally:
            if not job.stopped:
                self.progress = {}
                if failure is not None:
                    self.frame = {**self.words(width=self.width), **self.frame, "error": failure}
            elif not self._jobs.replaced(job):
                self.progress = {"text": "cancelled: what is shown was replayed before"}

    def _compared(self, before: Any, job: ViewJob) -> Any:
        progress = self._progress_shown(job)
        if before is not None:
            return before.under(self._options, progress=progress)
        source = self._source
        if hasattr(source, "what_if"):
            return source.what_if(self._options, baseline=self._baseline, progress=progress)
        if hasattr(source, "differences"):
            return source
        return ts.what_if(source, self._options, self._baseline, progress=progress, **self._settings)

    def _progress_shown(self, job: ViewJob) -> Any:
        last = -1

        def progress(done: int, whole: int) -> None:
            nonlocal last
            job.check()
            part = done * PROGRESS_STEPS // max(whole, 1)
            if part != last:
                last = part
                words = f"replaying: {done:,} of {whole:,} steps"
                self.progress = {"busy": True, "share": round(done / max(whole, 1), 3), "text": words}

        return progress

    def _take(self, compared: Any) -> None:
        if not compared.places:
            raise ts.NotFound("nothing was written yet, so there is nothing to replay")
        model = what_if_model(compared, place=_place(self.opened), title=self._title)
        with self._settling:
            before, self._found, self._model = self._model, compared, model
            current = before.ids[self.index] if before is not None and self.index >= 0 else self.snapshot
            self._settle(model.index_at(int(current)) if current is not None else len(model) - 1)
        self.form, self.opened = model.form, model.opened
        self.redraw()

    def _settle(self, index: int) -> None:
        """Make all traits name the same commit."""
        model = self._model
        if model is None or not len(model):
            return
        with self._settling:
            self.index = min(max(index, 0), len(model) - 1)
            self.snapshot = int(model.ids[self.index])
            self.selected = (self.snapshot,)
        self.now = self._point(self.index, self.width)

    def _agree(self) -> None:
        """Go to the snapshot that another thread has chosen meanwhile."""
        model, at = self._model, self.index
        if model is not None and 0 <= at < len(model) and self.snapshot != int(model.ids[at]):
            self._on_snapshot({"new": self.snapshot})

    def _on_index(self, change: Mapping[str, Any]) -> None:
        if not self._settling:
            self._settle(int(change["new"]))

    def _on_snapshot(self, change: Mapping[str, Any]) -> None:
        if not self._settling and change["new"] is not None and self._model is not None:
            at = self._model.index_at(int(change["new"]))
            if at != self.index:
                with self._settling:  # the linked view keeps its own snapshot
                    self.index = at
                self.now = self._point(at, self.width)

    def _on_opened(self, _change: Mapping[str, Any]) -> None:
        place, model = _place(self.opened), self._model
        if self._found is None or place not in self._found.places or (model and place == model.place):
            return
        self._take(self._found)

    def _on_verb(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        if content.get("verb") == "replay":
            self.replay(self._asked(content.get("form") or {}))
        else:
            super()._on_verb(widget, content, buffers)

    def _asked(self, form: Mapping[str, Any]) -> dict[str, str]:
        """B's options with those of the fields in place of the ones they had."""
        asked, shown = dict(self._options), dict(self.form)
        for name, key in FIELDS.items():
            value = str(form.get(name, "")).strip()
            if value and value != shown.get(name):
                asked[key] = value
        return asked

    def _point(self, index: int, width: float) -> dict[str, Any]:
        """The levels and the words at one commit."""
        model = self._model
        if model is None or not 0 <= index < len(model):
            return {}
        words = {"index": index, "snapshot": int(model.ids[index]), "says": model.sentence(index)}
        return words | {"levels": svg.live(self._levels(index, width))}

    def _show_peek(self) -> None:
        at = int(self.hovered) if self.hovered.isdecimal() else -1
        self.peek = _peeked(self._model, at) if self._model is not None else {}

    def _levels(self, index: int, width: float) -> Figure:
        model = self._model
        assert model is not None
        if index < model.first_kept:
            words = f"levels before {fmt.snapshot_id(int(model.ids[model.first_kept]))} are not kept"
            return Figure(width, 60, svg.text(16, 36, words), words)
        return draw.levels_part(model, levels_pair(model, self._found, index), width=width)

    def redraw(self) -> None:
        """Lanes and charts without the cursor, and the levels at the selected commit."""
        self.frame = self._drawn(self.width)
        self.now = self._point(self.index, self.width)

    def _drawn(self, width: float) -> dict[str, Any]:
        model, words = self._model, self.words(width=width)
        if model is None:
            return {**words, **static.frame(draw.skeleton(width))}
        verdict = {"verdict": model.verdict, "trust": list(model.trust), "reproduced": model.reproduced}
        return {**words, **static.frame(draw.course_part(model, width=width)), **verdict}

    def figure(self, *, width: float) -> Figure:
        """The whole picture with its cursor; the first replay is waited for a little."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        model = self._model
        if model is None or self.index < model.first_kept:
            return draw.skeleton(width)
        pair = levels_pair(model, self._found, self.index)
        return draw.what_if_figure(model, pair, index=self.index, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, what is replayed, B's options as text to copy."""
        parts = [self._title]
        model = self._model
        if model is not None:
            partition, bucket = model.place
            parts += [partition, f"bucket {bucket}"] if len(model.places) > 1 or partition else []
            noun = "real commit" if hasattr(self._source, "what_if") else "simulated flush"
            many = f"{len(model):,} {noun if len(model) == 1 else _plural(noun)}"
            parts.append(f"{many}, replayed on metadata alone")
            if bar := draw.commits_a_bar(model, width):
                parts.append(f"1 bar = {fmt.plural(bar, 'commit')}")
        verdict = ", ".join(f"'{key}' = '{value}'" for key, value in self._options.items())
        places = [f"{p}/{b}" for p, b in model.places[:400]] if model is not None else []
        return {
            "title": "What if",
            "subtitle": " · ".join(part for part in parts if part),
            "options": verdict,
            "places": places,
        }

    def text(self) -> str:
        """Both sides in a terminal."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        if self._model is None:
            return f"{self._title}  what if: {self.progress.get('text', 'not replayed')}".strip()
        return text_form(self._model, self._found, self.index)

    def data(self) -> pa.Table:
        """Both sides, a row for each commit to each bucket; waits until they are replayed."""
        self.wait()
        return self._found.to_arrow() if self._found is not None else pa.table({})

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """Lanes and charts, and the levels of the newest commits of the opened bucket."""
        model = self.wait().model
        count = len(model) if model is not None else 0
        first = max(count - EXPORT_COMMITS, model.first_kept if model is not None else 0)
        frames = {str(width): self._drawn(width) for width in widths}
        if first and model is not None:
            for drawing in frames.values():
                drawing["subtitle"] += f" · levels of the newest {count - first:,} commits are in this file"
        return {
            "kind": "what_if",
            "reply": "what_if",
            "widths": list(widths),
            "frames": frames,
            "first": first,
            "ids": model.ids.tolist() if model is not None else [],
            "says": [model.sentence(at) for at in range(count)] if model is not None else [],
            "peeks": [_peeked(model, at) for at in range(count)] if model is not None else [],
            "levels": {
                str(width): [svg.live(self._levels(at, width)) for at in range(first, count)]
                for width in widths
            },
            "state": {
                "index": self.index,
                "snapshot": self.snapshot,
                "hovered": "",
                "selected": self.selected,
            }
            | {"form": self.form, "now": {}, "peek": {}, "progress": {}, "width": widths[0], "frame": {}},
        }


def _peeked(model: WhatIfModel, index: int) -> dict[str, Any]:
    """What the card at one commit says."""
    if not 0 <= index < len(model):
        return {}
    rows = [[side.letter, model.state(side, index)] for side in model.sides]
    return {"index": index, "head": fmt.snapshot_id(int(model.ids[index])), "rows": rows}


def _place(opened: str) -> tuple[str, int] | None:
    partition, _, bucket = opened.rpartition("/")
    return (partition, int(bucket)) if bucket.isdecimal() else None


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("sh") else f"{noun}s"
