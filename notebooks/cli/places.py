"""Where things of the checkout are. Standard library only."""

from __future__ import annotations

from pathlib import Path

from tablestore.cli.door import Door

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
EXTENSION = ROOT / "widgets" / "labextension" / "jupyter"
CHECKOUT = Door("./workbench", str(ROOT / "lake"))
"""Called through the script: its lake is the folder `lake` of the checkout."""
