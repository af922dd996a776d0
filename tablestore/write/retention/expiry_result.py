"""The result of an expiry: snapshots, files and bytes that go, reads that end, what stays and why.

A value with a text form; made by `write/retention/expire.py`, shown by previews and part of
`Committed.expired`, so that nothing is removed in silence. Bytes are those of all removed files, snapshot
files among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from tablestore.core import quantities
from tablestore.meta.expiry_rules import Bound, moment

KINDS = (
    *("data", "changelog", "file index", "index", "manifest", "manifest list", "index manifest"),
    *("statistics", "snapshot", "checksum", "other"),
)


@dataclass(frozen=True, slots=True)
class Expiry:
    """What an expiry removes (or, with `dry_run`, would remove).

    `kinds`: (kind, files, bytes); `breaks`: reads that end, `keeps`: what stays readable, and how; `bounds`:
    each rule with the first snapshot it keeps, the strictest first; `remaining`: the first and the last
    snapshot that stay; `forgotten`: consumers, `tags`: tags, `partitions`: partitions that were too old;
    `problems`: what failed.
    """

    snapshots: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int = 0
    protected_by: tuple[str, ...] = ()
    changelogs: tuple[int, ...] = ()
    kinds: tuple[tuple[str, int, int], ...] = ()
    bounds: tuple[Bound, ...] = ()
    remaining: tuple[int, int] | None = None
    breaks: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing goes and nothing went wrong."""
        gone = self.snapshots or self.changelogs or self.forgotten or self.tags or self.partitions
        return not (gone or self.problems)

    def and_changelogs(self, more: Expiry) -> Expiry:
        """This expiry and `more`, that of the long-lived changelogs after it, as one."""
        counts = {kind: (files, size) for kind, files, size in self.kinds}
        for kind, files, size in more.kinds:
            before = counts.get(kind, (0, 0))
            counts[kind] = (before[0] + files, before[1] + size)
        return replace(
            self,
            files=(*self.files, *more.files),
            bytes=self.bytes + more.bytes,
            changelogs=more.changelogs,
            kinds=tuple((kind, *counts[kind]) for kind in KINDS if kind in counts),
            breaks=(*self.breaks, *more.breaks),
            keeps=(*self.keeps, *more.keeps),
            protected_by=tuple(dict.fromkeys((*self.protected_by, *more.protected_by))),
            problems=(*self.problems, *more.problems),
        )

    @property
    def text(self) -> str:
        """Everything as text, a screen of it."""
        lines = [self._line()]
        if self.kinds:
            kinds = ", ".join(f"{n} {kind} ({quantities.size(b)})" for kind, n, b in self.kinds)
            lines += wrap(kinds, 110, initial_indent="  files   ", subsequent_indent=" " * 10)
        for title, some in (("breaks", self.breaks), ("keeps", self.keeps)):
            lines += [f"  {title:7} {text}" for text in some]
        lines += [f"  stays   {_bound(b)}" for b in self.bounds]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text if self.dry_run else self._line()

    def _line(self) -> str:
        kept = f"; kept for {', '.join(self.protected_by)}" if self.protected_by else ""
        more = f", changelogs {ranged(self.changelogs)}" if self.changelogs else ""
        more += f", tags {', '.join(self.tags)}" if self.tags else ""
        more += f", partitions {', '.join(self.partitions)}" if self.partitions else ""
        more += f", consumers {', '.join(self.forgotten)}" if self.forgotten else ""
        would = " would go: call again with dry_run=False" if self.dry_run else ""
        size = f"{quantities.many(len(self.files), 'file')}, {quantities.size(self.bytes)}{would}"
        failed = f"; not done: {'; '.join(self.problems)}" if self.problems else ""
        return f"Expiry(snapshots {ranged(self.snapshots)}{more}, {size}{kept}{failed})"


def ranged(ids: Sequence[int]) -> str:
    """`3..9`, or `none`."""
    return f"{ids[0]}..{ids[-1]}" if ids else "none"


def _bound(b: Bound) -> str:
    until = "" if b.until_ms is None else f", until {moment(b.until_ms)}"
    return f"from snapshot {max(b.first, 1)}: {b.text}{until}"


def counted(files: Mapping[str, int], *, changelog: Iterable[str] = ()) -> tuple[tuple[str, int, int], ...]:
    """(kind, files, bytes) of paths with their sizes; `changelog` are the paths that hold changes."""
    changes, numbers, sizes = set(changelog), Counter[str](), Counter[str]()
    for path, size in files.items():
        kind = "changelog" if path in changes else _kind(path)
        numbers[kind] += 1
        sizes[kind] += size
    return tuple((kind, numbers[kind], sizes[kind]) for kind in KINDS if numbers[kind])


def _kind(path: str) -> str:
    folder, _, name = path.rpartition("/")
    place = folder.rpartition("/")[2]
    if place == "manifest":
        kinds = {"manifest-list-": "manifest list", "index-manifest-": "index manifest"}
        return next((kind for prefix, kind in kinds.items() if name.startswith(prefix)), "manifest")
    if place in ("index", "statistics", "snapshot"):
        return place
    if place == "changelog":
        return "snapshot"
    if place == "checksums":
        return "checksum"
    if name.endswith(".index"):
        return "file index"
    return "index" if name.startswith("index-") else "data"
