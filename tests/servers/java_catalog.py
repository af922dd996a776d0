"""JavaCatalog: a catalog of Java Paimon 2.0.0 in a process of its own (peers/java/PaimonCatalog.java)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Self

from tests.peers import java_env


class JavaCatalog:
    """A process with one catalog at a time; a request is a list of words, its answer a list of lines cut at
    tabs."""

    def __init__(self, *more: Path) -> None:
        """`more`: jars beside those of Java Paimon."""
        flags = ["-Duser.timezone=UTC", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m"]
        flags.append(f"-Djava.io.tmpdir={tempfile.gettempdir()}")
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            ["java", *flags, "-cp", ":".join(map(str, (java_env.class_path(), *more))), "PaimonCatalog"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
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
            self._process.stdin.write("\t".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        found = []
        for line in self._process.stdout:
            line = line.rstrip("\n")
            if line == "OK":
                return found
            if line.startswith("ERROR "):
                raise AssertionError(f"Java Paimon: {line[6:]}")
            found.append(line.split("\t"))
        raise self._ended()

    def names(self, *words: object) -> list[str]:
        """An answer of one word a line."""
        return [line[0] for line in self.ask(*words)]

    def _ended(self) -> AssertionError:
        self._said.seek(0)
        return AssertionError(f"the Java process ended: {self._said.read()[-2000:]}")
