"""StepLanes: a story of steps that one walks through by slider and keys.

Traits: `index` (the chosen step), `snapshot` (the newest one of the table then, for linked views),
`selected` ((index,)), `actions` (lanes that can take one more step, each with a button). Made from a
`StepsModel`; the course's labs build those from real committers.
"""

import reprlib
from collections.abc import Callable, Mapping
from typing import Any, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.kit import static
from widgets.kit.svg import Figure
from widgets.kit.view import View, module
from widgets.steps import figure as draw
from widgets.steps.model import StepsModel, table, text_form

Act = Callable[[str], tuple[StepsModel, tuple[str, ...]]]
"""One more step of a lane: the longer story, and the lanes that can go on."""


class StepLanes(View):
    """Who did what to the store, step by step and lane by lane, and the snapshots that came of it.

    `model` is a `StepsModel`; `index` the step chosen at first (None: the last). `act(model, name)` makes
    the story longer: lanes get buttons then, as far as `actions` names them. Other traits (`width`, …) go by
    keyword.

    >>> from widgets.steps.model import StepsModel, StoryStep
    >>> story = StepsModel("A commit", "", ("writer",), (StoryStep(0, "publish", "publishes", snapshot=1),))
    >>> widgets.StepLanes(story).data()["snapshot"].to_pylist()
    [1]
    """

    _esm = module("steps")
    index = traitlets.Int(-1).tag(sync=True)
    live = traitlets.Bool(False).tag(sync=True)
    actions = traitlets.Tuple().tag(sync=True)

    def __init__(
        self,
        model: StepsModel,
        *,
        index: int | None = None,
        act: Act | None = None,
        actions: tuple[str, ...] = (),
        **kwargs: object,
    ) -> None:
        if not isinstance(model, StepsModel):
            raise ts.InvalidRequest(f"StepLanes takes a StepsModel, not {reprlib.repr(model)}")
        self._model, self._act, self._settling = model, act, False
        kwargs |= {"live": act is not None, "actions": actions}
        super().__init__(**kwargs)
        self.observe(self._on_index, "index")
        self.observe(self._on_snapshot, "snapshot")
        self._settle(len(model.steps) - 1 if index is None else index)
        self.redraw()

    @property
    def model(self) -> StepsModel:
        """The story."""
        return self._model

    @property
    def code(self) -> str:
        """The Python that made the story; for a killed one, the life that ends at the chosen step."""
        return self._model.code.replace("{index}", str(self.index))

    def act(self, name: str) -> Self:
        """One more step of a lane, as its button does; nothing if the lane is at its end."""
        if self._act is not None and name in self.actions:
            self._model, self.actions = self._act(name)
            self._settle(len(self._model.steps) - 1)
            self.redraw()
        return self

    def _on_verb(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        if content.get("verb") == "act":
            step, remedy = str(content.get("name")), "Run the cell of the story again."
            self.guarded(lambda: self.act(step), what="The step failed.", next_step=remedy)
        else:
            super()._on_verb(widget, content, buffers)

    def refresh(self) -> Self:
        """Draw again; a story does not change."""
        self.redraw()
        return self

    def _settle(self, index: int) -> None:
        """Make all traits name the same step."""
        self._settling = True
        try:
            self.index = min(max(index, min(0, len(self._model.steps) - 1)), len(self._model.steps) - 1)
            self.selected = (self.index,)
            self.snapshot = self._model.snapshot(self.index)
        finally:
            self._settling = False

    def _on_index(self, change: Mapping[str, Any]) -> None:
        if not self._settling:
            self._settle(int(change["new"]))
            self.redraw()

    def _on_snapshot(self, change: Mapping[str, Any]) -> None:
        if self._settling or change["new"] is None:
            return
        step = self._model.first_with(int(change["new"]))
        if step is not None:
            self.index = step

    def figure(self, *, width: float) -> Figure:
        """The picture with the chosen step."""
        return draw.steps_figure(self._model, index=self.index, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and subtitle."""
        return {"title": self._model.title, "subtitle": self._model.subtitle}

    def text(self) -> str:
        """The lanes in a terminal."""
        return text_form(self._model, self.index)

    def data(self) -> pa.Table:
        """The steps as Arrow."""
        return table(self._model)

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """A frame a step and width."""
        places = range(len(self._model.steps))
        frames = {
            str(width): {
                str(place): static.frame(draw.steps_figure(self._model, index=place, width=width))
                for place in places
            }
            for width in widths
        }
        spec = self.export_spec("steps", widths, frames, "index", "snapshot", "selected")
        return spec | {"snapshots": [self._model.snapshot(place) for place in places]}
