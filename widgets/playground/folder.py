"""A folder of static files that play: pages with recorded pictures, Python and the engine once for all.

    index.html  game.html  …   a page each: picture, recipe, and the scripts of its views
    python.js  engine.js       what all share; a browser keeps them, so only the first page loads them
                               (what the pages import as bytecode, the rest as source)

Nothing refers outside the folder. It is served by any web server and opened from a disk, too: all data are
scripts, because a page of a disk may load nothing else. Called by `./workbench docs --playground`.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import traitlets

from widgets.kit.page import boot, page
from widgets.playground import pyodide
from widgets.playground.lesson import waiting
from widgets.playground.recipes import EXAMPLES, Recipe, views_of

ROOT = Path(__file__).parents[2]
COLUMNS = Path(__file__).parent / "columns"
NOT_NEEDED = ("sql", "cdc", "spark", "tiering", "flow", "cli")
"""Packages of the engine that no recipe reaches."""
_WHEN = (1980, 1, 1, 0, 0, 0)
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; worker-src blob:; connect-src blob:; "
    "script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' blob: file:"
)


def engine_zip() -> bytes:
    """The engine, the views and traitlets as one archive; the same files give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in sorted(_files().items()):
            archive.writestr(zipfile.ZipInfo(name, _WHEN), path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
        archive.writestr(zipfile.ZipInfo("widgets/__init__.py", _WHEN), '"""Views."""\n')
    return packed.getvalue()


def _files() -> dict[str, Path]:
    """Name in the archive → file."""
    files: dict[str, Path] = {}
    for path in (ROOT / "tablestore").rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        if parts[1] not in NOT_NEEDED:
            files["/".join(parts)] = path
    for path in (ROOT / "widgets").rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        if "labextension" not in parts and COLUMNS not in path.parents and parts[1] != "__init__.py":
            files["/".join(parts)] = path
    for path in COLUMNS.rglob("*.py"):
        files[f"columns/{path.relative_to(COLUMNS).as_posix()}"] = path
    home = Path(traitlets.__file__).parent
    for path in home.rglob("*.py"):
        if "tests" not in path.parts:
            files[f"traitlets/{path.relative_to(home).as_posix()}"] = path
    return files


def shared_scripts() -> dict[str, str]:
    """Python and the engine as scripts, by the names of their files. Raises NoPyodide."""
    files = pyodide.packed(engine_zip(), json.dumps(EXAMPLES))
    engine = {pyodide.ENGINE: files.pop(pyodide.ENGINE)}
    return {
        "python.js": f"const lwPython = {json.dumps(files)};\n",
        "engine.js": f"const lwEngine = {json.dumps(engine)};\n",
    }


def play_page(
    title: str,
    recipe: Recipe,
    *,
    intro: str = "",
    inline: bool = False,
    before: Sequence[Any] = (),
    lead: str = "",
) -> str:
    """One page that plays a recipe: its views as recorded pictures, then live. With `inline` the page is one
    file; else `python.js` and `engine.js` lie beside it. `intro` is HTML below the title. The views and
    workbenches `before` stay recordings, above `lead`, which is HTML."""
    first = sum(1 + len(getattr(view, "parts", ())) for view in before)
    after = f"<script>{''.join(shared_scripts().values())}</script>" if inline else ""
    after += _play(recipe, [] if inline else ["python.js", "engine.js"], first=first)
    views = [*before, *views_of(recipe)]
    leads = {len(before): lead + STATUS}
    heading = not before  # a workbench has its own
    return page(title, views, heading=heading, intro=intro, leads=leads, policy=POLICY, after=after)


def lesson_scripts(recipe: Recipe) -> str:
    """The scripts of a page with a place for each view of a lesson; `python.js` and `engine.js` lie beside
    it. They hold no verdict: until Python has started, what is clicked waits."""
    specs = [waiting(view, at) for at, view in enumerate(views_of(recipe))]
    return boot(specs) + _play(recipe, ["python.js", "engine.js"])


def _play(recipe: Recipe, scripts: list[str], *, first: int = 0) -> str:
    """The script that starts Python; `scripts` lie beside the page, `first` is the first place that plays."""
    start = {
        "scripts": scripts,
        "worker": _own("worker.js"),
        "lock": pyodide.LOCK,
        "recipe": json.dumps(recipe),
        "first": first,
    }
    text = json.dumps(start).replace("</", "<\\/")
    return f"<script>{_own('play.js')}\nlwPlay({text});</script>"


STATUS = '<p id="lw-play" class="lw-sub" role="status">A recorded picture.</p>'


def _own(name: str) -> str:
    """A script of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
