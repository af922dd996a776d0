"""What all views share: traits, redraw, links, the static picture, the text form, export.

Invariants: a view's state that crosses to the browser is one `frame` (drawn by the pure figure) and plain
traits; an error while loading shows in the view with the next step and leaves the last good picture in
place. Base class of the four views; not thread-safe, callers serialise (views with a worker thread hold
their own lock).
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self

import anywidget
import pyarrow as pa
import traitlets

from widgets import _format as fmt
from widgets import _static, _svg, _theme
from widgets._svg import Figure
from widgets._theme import Theme

HERE = Path(__file__).parent
LINKED = ("snapshot", "key_range", "opened", "plan")


class Inspect(Protocol):
    """The metadata of a table as Arrow tables."""

    def commits(self) -> pa.Table:
        """One row a commit."""
        ...

    def levels(self, *, snapshot: int | None = None) -> pa.Table:
        """One row a live file."""
        ...


class Source(Protocol):
    """What a view needs of a table; a simulator can offer the same."""

    @property
    def inspect(self) -> Inspect:
        """The table's metadata."""
        ...


def compact(text: str) -> str:
    """A style sheet or module of ours without comment lines, indentation and blank lines."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def script(name: str) -> str:
    """One of our JavaScript files."""
    return compact((HERE / name).read_text(encoding="utf-8"))


def style(name: str) -> str:
    """One of our style sheets without the spaces that mean nothing."""
    text = compact((HERE / name).read_text(encoding="utf-8"))
    return re.sub(r"(?<=:) (?! )", "", re.sub(r"\s*([{};,>])\s*", r"\1", text))


STYLE = _theme.css() + style("_stage.css")


def module(name: str, function: str) -> str:
    """The ES module of a view: the shared part, its own part, and the entry point."""
    return f"{script('_stage.js')}\n{script(name)}\nexport default {{ render: {function} }};\n"


def option_map(source: object) -> Mapping[str, Any]:
    """The table's options by key, as far as it shows them as a mapping."""
    options = getattr(source, "options", None)
    return options if isinstance(options, Mapping) else {}


def title_of(source: object) -> str:
    """The table's name, if it has one."""
    for attribute in ("full_name", "name"):
        value = getattr(source, attribute, None)
        if isinstance(value, str):
            return value
    return ""


class View(anywidget.AnyWidget):
    """A picture with traits. Subclasses say what to draw (`figure`, `words`) and what a change means."""

    _css = STYLE
    frame = traitlets.Dict().tag(sync=True)
    width = traitlets.Int(1040).tag(sync=True)
    static = traitlets.Bool(False).tag(sync=True)
    snapshot = traitlets.Int(None, allow_none=True).tag(sync=True)
    selected = traitlets.Tuple().tag(sync=True)
    hovered = traitlets.Unicode("").tag(sync=True)
    key_range = traitlets.Tuple().tag(sync=True)

    def __init__(self, **kwargs: object) -> None:
        self._peers: list[View] = []
        super().__init__(**kwargs)
        self.observe(lambda _change: self.redraw(), "width")

    def figure(self, *, width: float) -> Figure:
        """The picture at a width."""
        raise NotImplementedError

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, subtitle and other words of the frame around the picture at a width."""
        raise NotImplementedError

    def data(self) -> object:
        """What the picture shows, for further work."""
        raise NotImplementedError

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """Everything a page without a kernel needs."""
        raise NotImplementedError

    def refresh(self) -> Self:
        """Read the source again and redraw."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Draw the present state into `frame`."""
        drawn = self.figure(width=self.width)
        self.frame = {
            **self.words(width=self.width),
            "svg": _svg.live(drawn),
            "label": drawn.label,
            "meta": drawn.meta,
        }

    def guarded(self, load: Callable[[], None], *, what: str, next_step: str) -> None:
        """Run `load`; an error goes into the frame, and the last good picture stays."""
        try:
            load()
        except Exception as error:
            failure = {"what": what, "text": f"{type(error).__name__}: {error}", "next": next_step}
            self.frame = {**self.words(width=self.width), **self.frame, "error": failure}

    def link(self, other: "View") -> Self:
        """Follow each other: snapshot, key range and plan, as far as both have them."""
        for name in LINKED:
            if self.has_trait(name) and other.has_trait(name):
                ends = ((self, name), (other, name))
                traitlets.link(*(ends if getattr(self, name) or not getattr(other, name) else ends[::-1]))
        self._peers.append(other)
        other._peers.append(self)
        return self

    def is_linked(self, other: "View") -> bool:
        """Whether `link` has joined the two."""
        return other in self._peers

    def refresh_linked(self) -> None:
        """Read again in this view and in all that are linked to it."""
        self.refresh()
        for peer in self._peers:
            peer.refresh()

    def to_svg(self, *, width: float = 1040, theme: Theme = "light") -> str:
        """One SVG document: header, picture, and when it was drawn."""
        return _svg.standalone(self.picture(width=width), theme=theme)

    def picture(self, *, width: float, footer: bool = True) -> Figure:
        """The static figure with its header and, by default, a footer."""
        return _static.framed(
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
            _static.page(title or self.words(width=self.width)["title"], [self], heading=bool(title)),
            encoding="utf-8",
        )
        return target

    def text(self) -> str:
        """The view in a terminal."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict[str, Any], dict[str, Any]]:
        bundle = super()._repr_mimebundle_(**kwargs)
        data = dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
        data["text/plain"] = self.text()
        data["text/html"] = _static.image(self.to_svg(), alt=self.figure(width=1040).label)
        return data, {}
