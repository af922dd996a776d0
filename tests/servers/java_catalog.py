"""JavaCatalog: a catalog of Java Paimon 2.0.0 in a process of its own (peers/java/PaimonCatalog.java)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Self

import pyspark

from tests.peers import java_env
from tests.suite import counterparts


class JavaCatalog:
    """One catalog; a request is a list of words, its answer a list of lines cut at tabs."""

    def __init__(self, *, hive: bool = False, **options: str) -> None:
        counterparts.need("Java Paimon")
        path = java_env.class_path()
        more = (
            [str(Path(pyspark.__file__).parent / "jars" / "*")]
            if hive
            else [*map(str, java_env.driver_jars())]
        )
        flags = ["-Duser.timezone=UTC", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m"]
        flags.append(f"-Djava.io.tmpdir={tempfile.gettempdir()}")
        given = [
            f"{k.replace('_', '-') if k != 'lock_enabled' else 'lock.enabled'}={v}"
            for k, v in options.items()
        ]
        self._process = subprocess.Popen(
            ["java", *flags, "-cp", ":".join([path, *more]), "PaimonCatalog", *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stderr.close()

    def ask(self, *words: object) -> list[list[str]]:
        """What it answers; AssertionError with its own words if it refuses."""
        try:
            self._process.stdin.write("\t".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"the Java process ended: {self._process.stderr.read()[-2000:]}") from None
        found = []
        for line in self._process.stdout:
            line = line.rstrip("\n")
            if line == "OK":
                return found
            if line.startswith("ERROR "):
                raise AssertionError(f"Java Paimon: {line[6:]}")
            found.append(line.split("\t"))
        raise AssertionError(f"the Java process ended: {self._process.stderr.read()[-2000:]}")

    def names(self, *words: object) -> list[str]:
        """An answer of one word a line."""
        return [line[0] for line in self.ask(*words)]
