"""Pyodide, Python for the browser: fetched from npm at build time, by version and hash, and never committed.

The package holds interpreter and standard library. It is kept in the user's cache, so a second build asks
the network for nothing. Node.js runs it once a version of the engine, to compile what the pages import.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

VERSION = "314.0.7"
SHA512 = "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
INTERPRETER = ("pyodide.asm.wasm", "pyodide.asm.mjs", "pyodide.mjs")
STDLIB, ENGINE = "python_stdlib.zip", "engine.zip"
MOST_KEPT = 4
"""Compiled engines that the cache keeps."""
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


def _files() -> dict[str, bytes]:
    """The files of the package that a page needs."""
    with tarfile.open(package()) as archive:
        read = {name: archive.extractfile(f"package/{name}") for name in (*INTERPRETER, STDLIB)}
        return {name: file.read() for name, file in read.items() if file is not None}


def packed(engine: bytes, examples: str) -> dict[str, str]:
    """The files that a page needs, in Base64; those of the interpreter are deflated.

    `engine` is the archive of the engine; what making the views of the recipes `examples` (JSON) imports of
    it and of the standard library is compiled, where there is Node.js. Raises NoPyodide.
    """
    files = _files()
    archives = {STDLIB: files.pop(STDLIB), ENGINE: engine}
    if shutil.which("node") is not None:
        archives = _compiled(archives, examples)
    deflated = {name: zlib.compress(data, 9) for name, data in files.items()}
    return {name: base64.b64encode(data).decode() for name, data in (deflated | archives).items()}


@cache
def _compiler() -> str:
    return (Path(__file__).parent / "compile.mjs").read_text(encoding="utf-8")


def _compiled(archives: Mapping[str, bytes], examples: str) -> dict[str, bytes]:
    """The archives with bytecode, from the cache unless they are new."""
    digest = hashlib.sha256("\0".join((VERSION, _compiler(), examples)).encode() + archives[ENGINE])
    kept = cached().with_name(f"compiled-{digest.hexdigest()[:24]}.zip")
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            _compile(Path(folder), archives, examples).replace(kept)
        every = sorted(kept.parent.glob("compiled-*.zip"), key=lambda path: path.stat().st_mtime)
        for old in every[:-MOST_KEPT]:
            old.unlink(missing_ok=True)
    with zipfile.ZipFile(kept) as both:
        return {name: both.read(name) for name in archives}


def _compile(folder: Path, archives: Mapping[str, bytes], examples: str) -> Path:
    """Run the compiler on the archives; the path of a zip of both."""
    with tarfile.open(package()) as archive:
        archive.extractall(folder, filter="data")
    for name, data in archives.items():
        (folder / name).write_bytes(data)
    script, target = folder / "compile.mjs", folder / "compiled.zip"
    script.write_text(_compiler(), encoding="utf-8")
    (folder / "examples.json").write_text(examples, encoding="utf-8")
    done = subprocess.run(["node", script, folder], capture_output=True, text=True, check=False)
    if done.returncode or not target.exists():
        said = [line for line in done.stderr.splitlines() if line.strip() and len(line) < 500]
        raise NoPyodide(f"node could not compile the engine: {' '.join(said[-3:])}; Node.js 18 or newer does")
    return target
