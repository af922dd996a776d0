"""The JupyterLab extension from its sources: one script, whose name holds its hash, and its metadata.

    .venv/bin/python -m widgets.labextension.build

The sources are written by hand and only put together: JupyterLab's own modules are asked for at run time, so
nothing is bundled and no node is needed. What it writes is committed; a test builds again and compares. A
folder with `labextensions` in it is what JUPYTER_PATH may name.
"""

import hashlib
import json
import re
import shutil
from pathlib import Path

from widgets.kit import glossary, theme
from widgets.kit.assets import compact, style

NAME = "tablestore-workbench"
HERE = Path(__file__).parent
JUPYTER = HERE / "jupyter"
"""What JUPYTER_PATH names to have the extension without installing it."""
BUILT = JUPYTER / "labextensions" / NAME
SOURCES = (
    "container.js",
    "running.js",
    "managers.js",
    "saved.js",
    "asking.js",
    "tab.js",
    "lakes.js",
    "terms.js",
    "plugin.js",
)


def script() -> str:
    """The whole script: style and glossary, then the sources in their order, in a scope of their own."""
    own = style("labextension/style.css")
    colours = theme.css().partition("@media (forced-colors")[0]  # of pictures; here are none
    colours = colours.replace(".lw{", ".tsw{")
    css = (
        re.sub(
            r"(--lw-[a-z0-9-]+):[^;}]*;?", lambda each: each[0] if f"var({each[1]})" in own else "", colours
        )
        + own
    )
    parts = [
        f"const STYLE = {json.dumps(css)}, TERMS = {json.dumps(glossary.for_page(), ensure_ascii=False)};",
        *(compact((HERE / name).read_text("utf-8")) for name in SOURCES),
    ]
    return "(() => {\n" + "\n".join(parts) + "\n})();\n"


def files(version: str = "0.2.0") -> dict[str, str]:
    """The built files by their path in BUILT."""
    code = script()
    entry = f"static/remoteEntry.{hashlib.sha256(code.encode()).hexdigest()[:16]}.js"
    package = {
        "name": NAME,
        "version": version,
        "description": "Saved views as pictures, and lakes in the sidebar",
        "license": "Apache-2.0",
        "jupyterlab": {"extension": True, "_build": {"load": entry, "extension": "./extension"}},
    }
    install = {
        "packageManager": "python",
        "packageName": NAME,
        "uninstallInstructions": f"pip uninstall {NAME}",
    }
    return {
        "package.json": json.dumps(package, indent=1) + "\n",
        "install.json": json.dumps(install, indent=1) + "\n",
        entry: code,
    }


def build() -> None:
    """Write the files; what an earlier build left goes."""
    shutil.rmtree(JUPYTER, ignore_errors=True)
    for name, text in files().items():
        (BUILT / name).parent.mkdir(parents=True, exist_ok=True)
        (BUILT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    build()
