"""JavaCatalog: a catalog of Java Paimon 2.0.0 in a process of its own (peers/java/PaimonCatalog.java)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Self

from tests.peers import java_env
from tests.peers.java_process import JavaProcess


class JavaCatalog(JavaProcess):
    """A process with one catalog at a time; a request is a list of words, its answer a list of lines cut at
    tabs."""

    def __init__(self, *more: Path) -> None:
        """`more`: jars beside those of Java Paimon."""
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        path = ":".join(map(str, (java_env.class_path(), *more)))
        super().__init__("PaimonCatalog", path, heap="512m", said=self._said)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._said.close()

    def open(self, **options: object) -> Self:
        """Have the catalog of these options, with `_` for `-`, in the place of the one it has."""
        names = {
            name: "lock.enabled" if name == "lock_enabled" else name.replace("_", "-") for name in options
        }
        self.ask("open", *(f"{names[name]}={value}" for name, value in options.items()))
        return self

    def ask(self, *words: object) -> list[list[str]]:
        """What it answers; AssertionError with its own words if it refuses."""
        try:
            self.send("\t".join(map(str, words)))
        except BrokenPipeError:
            raise self._ended() from None
        collected = []
        for line in self._process.stdout:
            line = line.rstrip("\n")
            if line == "OK":
                return collected
            if line.startswith("ERROR "):
                raise AssertionError(f"Java Paimon: {line[6:]}")
            collected.append(line.split("\t"))
        raise self._ended()

    def names(self, *words: object) -> list[str]:
        """An answer of one word a line."""
        return [line[0] for line in self.ask(*words)]

    def _ended(self) -> AssertionError:
        self._said.seek(0)
        return AssertionError(f"the Java process ended: {self._said.read()[-2000:]}")
