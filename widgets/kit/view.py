"""What all views share: traits, redraw, links, the static picture, the text form, export.

Invariants: a view's state that crosses to the browser is one `frame` (drawn by the pure figure) and plain
traits; an error while loading shows in the view with the next step and leaves the last good picture in
place. Base class of all views; not thread-safe, callers serialise (views with a worker thread hold
their own lock).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self

import anywidget
import traitlets

from widgets.chart.axes import Asked
from widgets.chart.plot import chart_of_rows
from widgets.kit import format as fmt
from widgets.kit import svg
from widgets.kit.assets import Assets, loader, of_kernel, renderer
from widgets.kit.links import LINKING, Shared
from widgets.kit.page import page
from widgets.kit.source import Source, is_bucket, option_map, require_source, title_of
from widgets.kit.static import frame, framed, image, mimebundle
from widgets.kit.svg import Figure
from widgets.kit.theme import Theme

LEAST_WIDTH = 240
LINKED = ("snapshot", "key_range", "opened", "plan")
__all__ = ["LINKED", "Source", "View", "module", "option_map", "require_source", "title_of"]


def module(kind: str) -> str:
    """The ES module of the view whose folder is `kind`; the kernel's assets carry its code."""
    return loader(renderer(kind))


class SnapshotId(traitlets.Int[int | None, int | None]):
    """The id of a snapshot. None is the newest: its id, as soon as a view or one linked to it knows it."""

    def set(self, obj: traitlets.HasTraits, value: int | None) -> None:
        """Take the value; for None the newest id that is known."""
        newest = obj.newest_known() if value is None and isinstance(obj, View) else value
        super().set(obj, newest)


class View(anywidget.AnyWidget):
    """A picture with traits. Subclasses say what to draw (`figure`, `words`) and what a change means.

    `links` are the traits that mean the same in every view that names them; `link` joins those of both.
    `verbs` are the methods that the page may call by their names, beside `refresh`; `chart` are the axes of
    `to_plotly` where none are asked for. `unreadable`: what is said where `_load` fails, and what to do then.
    """

    links: ClassVar[tuple[str, ...]] = LINKED
    verbs: ClassVar[tuple[str, ...]] = ()
    unreadable: ClassVar[tuple[str, str]] = ("", "")
    _reading: AbstractContextManager[Any] = nullcontext()  # of a view with a thread its lock
    chart: ClassVar[Asked] = Asked()
    assets = anywidget.WidgetTrait().tag(sync=True)
    frame = traitlets.Dict().tag(sync=True)
    width = traitlets.Int(1040).tag(sync=True)
    static = traitlets.Bool(False).tag(sync=True)
    snapshot = SnapshotId(None, allow_none=True).tag(sync=True)
    selected = traitlets.Tuple().tag(sync=True)
    hovered = traitlets.Unicode("").tag(sync=True)
    key_range = traitlets.Tuple().tag(sync=True)
    clock = traitlets.Unicode("").tag(sync=True)

    def __init__(self, **kwargs: object) -> None:
        self._peers: tuple[View, ...] = ()
        self.shared = Shared(self)
        self._drawing = threading.RLock()
        super().__init__(**kwargs)
        self.observe(lambda _change: self.redraw(), "width")
        self.on_msg(self._on_verb)

    @traitlets.default("assets")
    def _default_assets(self) -> Assets:
        return of_kernel()

    @traitlets.validate("width")
    def _with_room(self, proposal: Mapping[str, Any]) -> int:
        return max(int(proposal["value"]), LEAST_WIDTH)

    @traitlets.validate("opened")
    def _bucket_id(self, proposal: Mapping[str, Any]) -> str:
        opened = str(proposal["value"])
        if opened and not is_bucket(opened):
            raise traitlets.TraitError(
                f"{opened[:80]!r} is no bucket; give its id, such as 'day=mon/0' or '/0'"
            )
        return opened

    @traitlets.validate("frame")
    def _with_code(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        frame = dict(proposal["value"])
        return frame | ({"code": code} if frame and (code := self.code) else {})

    def _on_verb(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        verb = content.get("verb")
        if verb in ("refresh", *self.verbs):
            getattr(self, str(verb))()

    def newest_known(self) -> int | None:
        """The newest snapshot that this view or one linked to it knows; None where none knows any."""
        models: list[Any] = [getattr(view, "model", None) for view in self.group]
        ids = [model.ids for model in models if hasattr(model, "kinds")]
        return max((int(some[-1]) for some in ids if len(some)), default=None)

    @property
    def source(self) -> object:
        """What the view was made of: a table, a simulation, Arrow."""
        return getattr(self, "_source", getattr(self, "_table", None))

    @property
    def code(self) -> str:
        """The Python that gives what is shown; empty if the view has none."""
        return ""

    def figure(self, *, width: float) -> Figure:
        """The picture at a width."""
        raise NotImplementedError

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, subtitle and other words of the frame around the picture at a width."""
        raise NotImplementedError

    def data(self) -> object:
        """What the picture shows, for further work."""
        raise NotImplementedError

    def chart_rows(self) -> Any:
        """What `to_plotly` draws: the rows of `data`."""
        return self.data()

    def to_plotly(
        self,
        *,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        kind: str | None = None,
        how: str | None = None,
        backend: str | None = None,
    ) -> Any:
        """What the view shows as an ordinary chart, for papers and slides; arguments as in `widgets.plot`.
        Without any it draws the columns that the view is about. Raises InvalidRequest where there is nothing
        to draw."""
        asked = Asked(x, y, kind, how)
        return chart_of_rows(self.chart_rows(), asked if asked != Asked() else self.chart, backend)

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """Everything a page without a kernel needs."""
        raise NotImplementedError

    def export_frames(self, widths: tuple[int, ...]) -> dict[str, Any]:
        """By width the picture as it stands, as it crosses to the browser."""
        return {str(width): frame(self.figure(width=width)) for width in widths}

    def export_spec(
        self, kind: str, widths: tuple[int, ...], frames: Mapping[str, Any], *traits: str, **state: object
    ) -> dict[str, Any]:
        """The export of a view of that kind: its frames and words by width, and the state in which its page
        begins: the present `traits`, and what `state` says of others."""
        begins = {"width": widths[0], "frame": {}} | {name: getattr(self, name) for name in traits} | state
        words = {str(width): self.words(width=width) for width in widths}
        spec = {"kind": kind, "reply": kind, "widths": sorted(widths, reverse=True)}
        return spec | {"frames": frames, "words": words, "state": begins}

    def refresh(self) -> Self:
        """Read the source again and redraw; where that fails the view says so and keeps its picture."""
        what, step = self.unreadable
        with self._reading:
            self.guarded(self._load, what=what, next_step=step)
        return self

    def _load(self) -> None:
        raise NotImplementedError

    def redraw(self) -> None:
        """Draw the present state into `frame`: one thread at a time, so that the newest picture stays."""
        with self._drawing:
            drawn = self.figure(width=self.width)
            self.frame = {**self.words(width=self.width), **frame(drawn)}

    def guarded(self, load: Callable[[], object], *, what: str, next_step: str) -> None:
        """Run `load`; an error goes into the frame with a button to retry; the last good picture stays."""
        try:
            load()
        except Exception as error:
            failure = {"what": what, "text": f"{type(error).__name__}: {error}", "next": next_step}
            failure |= {"verb": "refresh", "button": "Read again"}
            self.frame = {**self.words(width=self.width), **self.frame, "error": failure}

    def link(self, other: "View") -> Self:
        """Follow each other in every trait of `links` that both have, until one of them is closed."""
        with LINKING:
            if other is self or self.is_linked(other):
                return self
            self._peers, other._peers = (*self._peers, other), (*other._peers, self)
        for name in self.links:
            if name in other.links and self.has_trait(name) and other.has_trait(name):
                self.shared.join(other.shared, name)
        if not self.is_linked(other):  # closed meanwhile, in another thread
            self.shared.part(other.shared)
            return self
        clock = self.clock or other.clock or f"clock-{self.model_id}"
        for view in self.group:  # they go to moments together: in the page at once
            view.clock = clock
        return self

    def unlink(self, other: "View") -> Self:
        """Undo `link`."""
        with LINKING:
            for view, two in ((self, other), (other, self)):
                view._peers = tuple(peer for peer in view._peers if peer is not two)
        self.shared.part(other.shared)
        if not self._peers:
            self.clock = ""
        return self

    def is_linked(self, other: "View") -> bool:
        """Whether `link` has joined the two."""
        return other in self._peers

    @property
    def linked(self) -> tuple["View", ...]:
        """The views that `link` has joined to this one."""
        return getattr(self, "_peers", ())  # one that could not be made is closed, too

    @property
    def group(self) -> tuple["View", ...]:
        """This view and all that `link` has joined to it, also by way of others, the nearest first."""
        views: list[View] = [self]
        for view in views:
            views += [peer for peer in view.linked if peer not in views]
        return tuple(views)

    def close(self) -> None:
        """Leave the page and every link."""
        for peer in self.linked:
            self.unlink(peer)
        super().close()

    def refresh_linked(self) -> None:
        """Read again in this view and in all that are linked to it, also by way of others."""
        for view in self.group:
            view.refresh()

    def to_svg(self, *, width: float = 1040, theme: Theme = "light") -> str:
        """One SVG document: header, picture, and when it was drawn."""
        return svg.standalone(self.picture(width=width), theme=theme)

    def picture(self, *, width: float, footer: bool = True) -> Figure:
        """The static figure with its header and, by default, a footer."""
        return framed(
            self.figure(width=width), words=self.words(width=width), note=self.note() if footer else ""
        )

    def note(self) -> str:
        """`state of #412, drawn 20 Nov 2026 12:47 UTC`."""
        at = f"state of {fmt.snapshot_id(self.snapshot)}, " if self.snapshot is not None else ""
        return f"{at}drawn {datetime.now(UTC):%d %b %Y %H:%M} UTC"

    def to_html(self, path: str | Path, *, title: str = "") -> Path:
        """One file that is live without a kernel and asks the network for nothing."""
        target = Path(path)
        target.write_text(
            page(title or self.words(width=self.width)["title"], [self], heading=bool(title)),
            encoding="utf-8",
        )
        return target

    def text(self) -> str:
        """The view in a terminal."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        html = image(self.to_svg(), alt=self.figure(width=1040).label)
        return mimebundle(super()._repr_mimebundle_(**kwargs), text=self.text(), html=html)
