"""The code and the style of all views: one widget a kernel, to which every view refers.

A view's own state is its frame and its traits; modules and style sheet cross to the browser once, in
`Assets`.
anywidget hands a view its exports (`host.getWidget`), also after a reload of the page and in a notebook
opened twice, because it is a model of the kernel like the view. Each module is a scope of its own,
so names in two of them cannot meet. Called by `view.module` and by `page`.
"""

import json
import re
from functools import cache
from pathlib import Path

import anywidget

from widgets.kit import glossary, theme

HERE = Path(__file__).parent.parent  # the folder of all views


def compact(text: str) -> str:
    """A style sheet or module of ours without comment lines, indentation and blank lines."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def script(name: str) -> str:
    """One of our JavaScript files."""
    return compact((HERE / name).read_text(encoding="utf-8"))


def style(name: str) -> str:
    """One of our style sheets without the spaces that mean nothing; texts in it stay as they are."""
    text = compact((HERE / name).read_text(encoding="utf-8"))
    text = re.sub(r'("[^"]*")|\s*([{};,>])\s*', lambda match: match[1] or match[2], text)
    return re.sub(r'("[^"]*")|(?<=:) (?! )', lambda match: match[1] or "", text)


def renderer(kind: str) -> str:
    """The entry function of a view's module: `what_if` → `renderWhatIf`."""
    return "render" + "".join(part.capitalize() for part in kind.split("_"))


def kinds() -> list[str]:
    """Every view there is: the folders with a `view.js`."""
    return sorted(path.parent.name for path in HERE.glob("*/view.js"))


def scope(kind: str, *, page: bool = False) -> str:
    """A view's module as `lwViews.render…`; with `page` also its answers without a kernel."""
    own = sorted(path.name for path in (HERE / kind).glob("*.js") if path.name not in ("view.js", "page.js"))
    names = [*own, "view.js", *(["page.js"] if page and (HERE / kind / "page.js").exists() else [])]
    code = "\n".join(script(f"{kind}/{name}") for name in names)
    return f"lwViews.{renderer(kind)} = (() => {{\n{code}\nreturn {renderer(kind)};\n}})();\n"


def library(*, host: bool = False) -> str:
    """What every module may call; with `host` also what stands in for a kernel."""
    terms = f"const LW_TERMS = {json.dumps(glossary.for_page(), separators=(',', ':'))};\n"
    names = ["kit/roles.js", "kit/stage.js", "kit/kernel.js", "kit/words.js", "history/history.js"]
    names.append("kit/host.js" if host else "kit/dress.js")
    return terms + "".join(f"{script(name)}\n" for name in names)


@cache
def sheet() -> str:
    """The style sheet of all views: the shared one, then each view's own `view.css`."""
    own = sorted(path.relative_to(HERE).as_posix() for path in HERE.glob("*/view.css"))
    return theme.css() + "".join(style(name) for name in ("kit/stage.css", "kit/kernel.css", *own))


@cache
def _module() -> str:
    views = "".join(scope(kind) for kind in kinds())
    dressed = 'initialize: ({ model }) => ({ ...lwViews, dress: (el) => lwDress(el, model.get("_css")) })'
    return f"{library()}const lwViews = {{}};\n{views}export default {{ {dressed} }};\n"


def loader(function: str) -> str:
    """The ES module of a view: it asks the assets for its entry function."""
    return (
        "export default { async render(props) {\n"
        'const assets = await props.host.getWidget(props.model.get("assets"));\n'
        "assets.exports.dress(props.el);\n"
        f"return assets.exports.{function}(props);\n}} }};\n"
    )


class Assets(anywidget.AnyWidget):
    """Modules and style of the views; it shows nothing itself."""

    def __init__(self) -> None:
        self._esm, self._css = _module(), sheet()
        super().__init__()


_made: list[Assets] = []


def of_kernel() -> Assets:
    """The kernel's one widget of assets; a new one if it was closed."""
    if not (_made and _made[-1].comm is not None):
        _made[:] = [Assets()]
    return _made[-1]
