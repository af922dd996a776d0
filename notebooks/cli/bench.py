"""`bench NAME …`: runs `notebooks/bench/NAME.py`; bare, it lists what is there by its first line."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

from notebooks.cli.places import ROOT

BENCHES = ROOT / "notebooks" / "bench"


def main(arguments: list[str]) -> int:
    meanings = benches(BENCHES)
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: ./workbench bench NAME [ARGUMENTS]\n")
        for name, meaning in meanings.items():
            print(f"  {name:<12} {meaning}")
        if not meanings:
            print("  no benchmark in notebooks/bench yet")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in meanings:
        print(
            f"workbench: no benchmark `{name}`; there are: {', '.join(meanings) or 'none'}", file=sys.stderr
        )
        return 2
    os.execv(sys.executable, [sys.executable, "-P", "-m", f"notebooks.bench.{name}", *rest])


def benches(folder: Path) -> dict[str, str]:
    """Name → first line of the module's docstring, for every module of the folder itself."""
    meanings = {}
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            meanings[path.stem] = text.partition("\n")[0]
    return meanings
