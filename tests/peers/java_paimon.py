"""JavaPaimon: the client of tests/peers/java/PaimonPeer.java, one JVM for a whole session."""

from __future__ import annotations

import subprocess
from typing import Self

from tests.peers.java_env import class_path


class JavaPaimon:
    """Reads, writes and compacts tables with Java Paimon 2.0.0. Paths are table directories; cells are
    Java's text."""

    def __init__(self) -> None:
        flags = ["-Duser.timezone=UTC", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g"]
        self._process = subprocess.Popen(
            ["java", *flags, "-cp", class_path(), "PaimonPeer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.stdin.close()
        self._process.wait(20)

    def _ask(self, *fields: object) -> list[list[str]]:
        self._process.stdin.write("\t".join(map(str, fields)) + "\n")
        self._process.stdin.flush()
        found = []
        for line in self._process.stdout:
            line = line.rstrip("\n")
            if line == "OK":
                return found
            if line.startswith("ERROR "):
                raise AssertionError(f"Java Paimon: {line[6:]}")
            found.append(line.split("\t"))
        raise AssertionError("the Java process ended")

    def rows(self, path: str, snapshot: int | None = None) -> list[list[str]]:
        """Rows of a plain batch read, as text, sorted."""
        return sorted(self._ask("rows", path, *([] if snapshot is None else [snapshot])))

    def levels(self, path: str) -> list[list[str]]:
        """Live files: bucket, level, rows, deletes, name; sorted."""
        return sorted(self._ask("levels", path))

    def snapshots(self, path: str) -> list[list[str]]:
        """id, kind, user, identifier, total records."""
        return self._ask("snapshots", path)

    def write(self, path: str, user: str, identifier: int, rows: list[tuple[object, ...]]) -> None:
        """Commit rows (row kind first) through Java's writer, which compacts as it sees fit."""
        text = ";".join(",".join("\\N" if c is None else str(c) for c in row) for row in rows)
        self._ask("write", path, user, identifier, text)

    def compact(self, path: str, user: str, identifier: int) -> None:
        """Full compaction of every bucket by Java."""
        self._ask("compact", path, user, identifier)
