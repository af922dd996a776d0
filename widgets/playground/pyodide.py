"""Pyodide, Python for the browser: fetched from npm at build time, by version and hash, and never committed.

The package holds interpreter and standard library. It is kept in the user's cache, so a second build asks
the network for nothing.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path

VERSION = "314.0.7"
SHA512 = "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
PARTS = ("pyodide.asm.wasm", "pyodide.asm.mjs", "pyodide.mjs", "python_stdlib.zip")
LOCK = {
    "info": {
        "abi_version": "2026_0",
        "arch": "wasm32",
        "platform": "emscripten_5_0_3",
        "version": VERSION,
        "python": "3.14.2",
    },
    "packages": {},
}
"""What Pyodide is told of other packages: there are none."""


class NoPyodide(Exception):
    """Pyodide is not to be had; the text says what to do."""


def cached() -> Path:
    """Where the package is kept."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "tablestore-workbench" / f"pyodide-{VERSION}.tgz"


def package() -> Path:
    """The package, fetched by npm unless it is there. Raises NoPyodide."""
    kept = cached()
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            _fetch(Path(folder)).replace(kept)
    digest = base64.b64encode(hashlib.sha512(kept.read_bytes()).digest()).decode()
    if digest != SHA512:
        kept.unlink()
        raise NoPyodide(
            f"pyodide {VERSION} has the hash {digest}, not the one known; it was removed, try again"
        )
    return kept


def _fetch(folder: Path) -> Path:
    if shutil.which("npm") is None:
        raise NoPyodide(f"npm is missing: install Node.js, or put pyodide-{VERSION}.tgz of npm at {cached()}")
    command = ["npm", "pack", "--silent", f"pyodide@{VERSION}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[:1]
        raise NoPyodide(
            f"npm could not fetch pyodide {VERSION}: {''.join(said)}; put the package at {cached()} by hand"
        )
    return next(folder.glob("*.tgz"))


def parts() -> dict[str, str]:
    """The files that a page needs, deflated (a zip is already) and in Base64."""
    texts = {}
    with tarfile.open(package()) as archive:
        for name in PARTS:
            file = archive.extractfile(f"package/{name}")
            assert file is not None, name
            data = file.read()
            texts[name] = base64.b64encode(data if name.endswith(".zip") else zlib.compress(data, 9)).decode()
    return texts
