"""What the head of the workbench says of a table: its name, what it is, how much it holds, what works.

Pure but for asking the source: its schema and options, `abilities()`, and the files that the levels have read
already. Bounds: 200 buckets to choose from, three reasons. Called by `widget`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from widgets.kit import format as fmt
from widgets.kit.source import option_map, title_of

MAX_BUCKETS = 200
OWN, COUNTED = "tablestore.uuid", "tablestore.row-count-field"
BUCKET_WORDS = {-1: "dynamic buckets", -2: "postponed buckets"}


@dataclass(frozen=True, slots=True)
class Able:
    """One verb, whether it works here, and if not, why."""

    verb: str
    works: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """The words of the head."""

    name: str
    kind: str
    facts: tuple[tuple[str, str], ...]
    able: tuple[Able, ...] = ()
    warning: str = ""
    buckets: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """`3 snapshots · 12 files · 920 MiB · 23.3 M rows stored`."""
        return " · ".join(f"{number} {noun}".strip() for number, noun in self.facts)

    @property
    def reasons(self) -> tuple[Able, ...]:
        """What does not work, at most three, each reason once."""
        by_why = {able.why: able for able in reversed(self.able) if not able.works}
        return tuple(reversed(by_why.values()))[:3]


def head_of(source: object, files: pa.Table, *, snapshots: int, place: str = "") -> Head:
    """The head of a table, a simulation, or whatever shows itself like one; `files` are its live ones, or
    those of a `place` in it, which the head is then of."""
    able, name = _abilities(source), title_of(source) or "table"
    return Head(
        f"{place} of {name}" if place else name,
        kind_of(source),
        facts_of(files, snapshots, whole=not place),
        able,
        _warning(source, able),
        buckets_of(files),
    )


def buckets_of(files: pa.Table) -> tuple[str, ...]:
    """The ids of the buckets, if there are several."""
    if not files.num_rows:
        return ()
    places = files.select(["partition", "bucket"]).group_by(["partition", "bucket"]).aggregate([])
    if places.num_rows < 2:
        return ()
    ordered = places.sort_by([("partition", "ascending"), ("bucket", "ascending")]).slice(0, MAX_BUCKETS)
    return tuple(f"{row['partition']}/{row['bucket']}" for row in ordered.to_pylist())


def _abilities(source: object) -> tuple[Able, ...]:
    asked = getattr(source, "abilities", None)
    return tuple(Able(a.verb, a.works, a.why) for a in asked()) if callable(asked) else ()


def _warning(source: object, able: tuple[Able, ...]) -> str:
    """What this version cannot do here, or that the table is another engine's; empty for one of ours.

    That no rows can be deleted is a choice of many tables: it is named only beside something else.
    """
    missing = [each.verb for each in able if not each.works]
    own = OWN in option_map(source)
    if "read" in missing:
        return "Metadata only. Snapshots, levels and sizes are shown; rows are not read."
    if missing and not (own and missing == ["delete"]):
        return f"Not everything works here: no {_listed(missing)}."
    if able and not own:
        return "Another engine's table: everything works, under its own options."
    return ""


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def kind_of(source: object) -> str:
    """`key (a, b) · deduplicate · deletion vectors`, `append table`, or `simulation`."""
    if not hasattr(source, "primary_key"):
        return "simulation" if hasattr(source, "inspect") else ""
    options = option_map(source)
    key = tuple(source.primary_key)
    parts = [_keyed(key, options) if key else _keyless(options)]
    if by := tuple(getattr(source, "partition_by", ())):
        parts.append(f"by {', '.join(by)}")
    if (bucket := _number(options.get("bucket", "-1"))) < 0 and key:
        parts.append(BUCKET_WORDS.get(bucket, ""))
    if options.get("deletion-vectors.enabled") == "true":
        parts.append("deletion vectors")
    if (producer := options.get("changelog-producer", "none")) != "none":
        parts.append(f"changelog by {producer}")
    return " · ".join(part for part in parts if part)


def _keyed(key: tuple[str, ...], options: Mapping[str, Any]) -> str:
    return f"key ({', '.join(key)}) · {options.get('merge-engine', 'deduplicate')}"


def _keyless(options: Mapping[str, Any]) -> str:
    return "change-log table, equal rows counted" if COUNTED in options else "append table, no key: no levels"


def _number(text: object) -> int:
    try:
        return int(str(text))
    except ValueError:
        return 0


def facts_of(files: pa.Table, snapshots: int, *, whole: bool = True) -> tuple[tuple[str, str], ...]:
    """How many snapshots, files, bytes and rows: each a number and its noun. Snapshots are always those of
    the table, which is said where the files are not all of it (`whole`)."""
    count, noun = _counted(snapshots, "snapshot")
    facts = [(count, noun if whole else f"{noun} of the table"), _counted(files.num_rows, "file")]
    if files.num_rows:
        facts.append((fmt.bytes_text(pc.sum(files["bytes"]).as_py() or 0), ""))
        facts.append((fmt.short_count(pc.sum(files["rows"]).as_py() or 0), "rows stored"))
    return tuple(facts)


def _counted(number: int, noun: str) -> tuple[str, str]:
    count, _, word = fmt.plural(number, noun).partition(" ")
    return count, word


def text_of(head: Head) -> str:
    """The head in a terminal."""
    lines = [f"{head.name}  {head.kind}", head.summary]
    if head.warning:
        lines.append(f"▲ {head.warning}")
        lines += ["  ".join(f"{'✓' if able.works else '–'} {able.verb}" for able in head.able)]
        lines += [f"  {able.verb}: {able.why}" for able in head.reasons]
    return "\n".join(line for line in lines if line.strip())
