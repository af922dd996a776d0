"""A snapshot's metadata as a tree, a table of what one node holds, key figures, and one file's row groups.

Invariants: only nodes that are open have children; a table has one page of rows, searched and sorted in
Arrow; what is left out is counted. Pure: Arrow of `inspect` → frozen values, and the text form. Called by the
figures and by the widget; the key figures are made in `sums`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.kit import format as fmt
from widgets.kit.svg import plain

PAGE = 12
CHILDREN = 8
"""Rows of a table at once, and children of a tree node; the table of the node has them all."""
SIGNS = {"removed": fmt.MINUS, "added": "+", "moved": "↓", "masked": "~", "kept": ""}
SORTS = {
    "file": "file_name",
    "level": "level_now",
    "rows": "rows",
    "size": "bytes",
    "keys": "min_key_pos",
    "masked": "masked",
    "manifest": "file_name",
    "ADD": "files_added",
    "DELETE": "files_deleted",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A row of the tree. `open` is None for a leaf."""

    path: str
    depth: int
    label: str
    note: str = ""
    open: bool | None = None
    code: bool = False
    more: bool = False
    """Stands for children that are not drawn; leads to the table of its parent."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """A data file in the table."""

    name: str
    change: str
    level: int | None
    level_before: int | None
    rows: int
    deletes: int
    bytes: int
    keys: str
    lo: float | None
    hi: float | None
    masked: str
    place: str

    @property
    def sign(self) -> str:
        """`−` removed, `+` added, `↓` moved to another level, `~` another deletion vector."""
        return SIGNS[self.change]

    @property
    def shown_level(self) -> int:
        """Where it is, or was."""
        return self.level if self.level is not None else (self.level_before or 0)

    @property
    def level_text(self) -> str:
        """`5`, or `5, before 0` where it moved."""
        moved = f", before {self.level_before}" if self.change == "moved" else ""
        return f"{self.shown_level}{moved}"


@dataclass(frozen=True, slots=True)
class PlainRow:
    """A row of any other table: texts by column, and the tree's node that it opens."""

    cells: tuple[str, ...]
    opens: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the table of a node."""

    columns: tuple[str, ...]
    rows: tuple[FileRow | PlainRow, ...]
    total: int
    first: int = 0
    found: int = 0
    """How many rows the search left of `total`."""
    ends: tuple[str, str] = ("", "")
    """The keys at both ends of the key lanes."""
    unchanged: tuple[int, int] = (0, 0)
    """Files and bytes that a diff leaves out because nothing changed about them."""

    @property
    def files(self) -> bool:
        """Whether the rows are data files."""
        return self.columns == FILES


FILES = ("file", "level", "rows", "size", "keys", "masked")
MANIFESTS = ("manifest", "size", "ADD", "DELETE", "partitions", "buckets", "levels")
INDEXES = ("index file", "kind", "bucket", "size", "entries")
COLUMNS = ("column", "id", "type", "role")
FACTS = ("fact", "value")


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One of the five figures on top."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One column of a row group."""

    column: str
    type: str
    codec: str
    encodings: str
    size: str
    ratio: str
    nulls: str
    bounds: str


@dataclass(frozen=True, slots=True)
class Detail:
    """One data file: its row groups, and the columns of the chosen one."""

    name: str
    summary: str
    groups: tuple[tuple[int, int, int, str], ...]
    """Number, rows, bytes, bounds of the leading column."""
    chosen: int
    chunks: tuple[ColumnChunk, ...]
    columns: int
    """All columns; `chunks` are the first of them."""


@dataclass(frozen=True, slots=True)
class ExplorerModel:
    """What the picture shows."""

    title: str
    snapshot: int | None
    against: int | None
    kind: str
    num_levels: int
    figures: tuple[KeyFigure, ...]
    nodes: tuple[Node, ...]
    path: str
    listing: Listing
    detail: Detail | None = None


def files_listing(
    table: pa.Table,
    *,
    changed: bool = False,
    search: str = "",
    sort: str = "",
    first: int = 0,
    page: int = PAGE,
) -> Listing:
    """A page of files from `inspect.state()`, `diff()` or `entries()`; with `changed` without kept ones."""
    unchanged = (0, 0)
    if changed and table.num_rows:
        kept = pc.equal(table["change"], "kept")
        rest = table.filter(kept)
        unchanged = (rest.num_rows, pc.sum(rest["bytes"]).as_py() or 0)
        table = table.filter(pc.invert(kept))
    ends = _ends(table)
    chosen = _searched(table, search, ("file_name", "partition", "min_key", "max_key"))
    first = max(min(first, chosen.num_rows - 1), 0) // page * page
    rows = tuple(_file_row(row) for row in _sorted(chosen, sort).slice(first, page).to_pylist())
    return Listing(FILES, rows, table.num_rows, first, chosen.num_rows, ends, unchanged)


def plain_listing(
    table: pa.Table,
    columns: tuple[str, ...],
    row_of: Callable[[Mapping[str, Any]], PlainRow],
    *,
    search: str = "",
    sort: str = "",
    first: int = 0,
    page: int = PAGE,
) -> Listing:
    """A page of any other table."""
    texts = tuple(f.name for f in table.schema if pa.types.is_string(f.type))
    chosen = _searched(table, search, texts)
    first = max(min(first, chosen.num_rows - 1), 0) // page * page
    rows = tuple(row_of(row) for row in _sorted(chosen, sort).slice(first, page).to_pylist())
    return Listing(columns, rows, table.num_rows, first, chosen.num_rows)


def _searched(table: pa.Table, search: str, columns: Sequence[str]) -> pa.Table:
    """Rows in which one of the columns holds the text, whatever its case."""
    wanted = search.strip()
    if not wanted or not table.num_rows:
        return table
    hits = None
    for name in columns:
        matches = pc.match_substring(pc.fill_null(table[name], ""), wanted, ignore_case=True)
        hits = matches if hits is None else pc.or_(hits, matches)
    return table if hits is None else table.filter(hits)


def _sorted(table: pa.Table, sort: str) -> pa.Table:
    """By a column's heading, `-size` downward; as given without one."""
    column = SORTS.get(sort.removeprefix("-"), "")
    if column == "level_now" and "level" in table.column_names:
        table = table.append_column("level_now", pc.coalesce(table["level"], table["level_before"]))
    if column not in table.column_names:
        return table
    order = "descending" if sort.startswith("-") else "ascending"
    return table.take(pc.sort_indices(table, sort_keys=[(column, order)]))


def _ends(table: pa.Table) -> tuple[str, str]:
    """The smallest and largest key of the listed files, at both ends of their lanes."""
    if not table.num_rows or table["min_key_pos"].null_count == table.num_rows:
        return ("", "")
    low = int(np.nanargmin(table["min_key_pos"].to_numpy()))
    high = int(np.nanargmax(table["max_key_pos"].to_numpy()))
    return _leading(table["min_key"][low].as_py()), _leading(table["max_key"][high].as_py())


def _leading(key: str | None) -> str:
    """The first column of a key: `[15953, 1]` → `15,953`."""
    return "" if key is None else fmt.key(key.removeprefix("[").removesuffix("]").split(", ")[0])


def _file_row(row: Mapping[str, Any]) -> FileRow:
    before, now = row["masked_before"], row["masked"]
    masked = ""
    if row["change"] in ("masked", "moved") and before != now:
        masked = f"{fmt.count(before)} → {fmt.count(now)}"
    elif row["change"] not in ("removed",) and now:
        masked = fmt.count(now)
    place = f"{row['partition']}/bucket-{row['bucket']}" if row["partition"] else f"bucket-{row['bucket']}"
    keys = fmt.ABSENT if row["min_key"] is None else fmt.key_range(row["min_key"], row["max_key"])
    return FileRow(
        name=row["file_name"],
        change=row["change"],
        level=row["level"],
        level_before=row["level_before"],
        rows=row["rows"],
        deletes=row["deletes"] or 0,
        bytes=row["bytes"],
        keys=keys,
        lo=row["min_key_pos"],
        hi=row["max_key_pos"],
        masked=masked,
        place=place,
    )


def manifest_row(row: Mapping[str, Any], *, parent: str) -> PlainRow:
    """A manifest of a list; opens its node."""
    cells = (
        row["file_name"],
        fmt.bytes_text(row["file_size"]),
        f"+{row['files_added']:,}",
        f"{fmt.MINUS}{row['files_deleted']:,}" if row["files_deleted"] else "0",
        _span(row["min_partition"], row["max_partition"]),
        _span(row["min_bucket"], row["max_bucket"]),
        _span(row["min_level"], row["max_level"]),
    )
    return PlainRow(cells, f"{parent}/{row['file_name']}")


def index_row(row: Mapping[str, Any]) -> PlainRow:
    """An index file: a HASH index or a container of deletion vectors."""
    ranges = row["dv_ranges"]
    entries = f"{row['row_count']:,} hashes" if ranges is None else fmt.plural(len(ranges), "vector")
    if ranges is not None:
        masked = sum(r["_CARDINALITY"] or 0 for r in ranges)
        entries += f", {masked:,} rows masked"
    partition = (row["partition"] or "").strip("{}")
    place = f"{partition}/{row['bucket']}" if partition else str(row["bucket"])
    return PlainRow((row["file_name"], row["index_type"], place, fmt.bytes_text(row["file_size"]), entries))


def _span(low: object, high: object) -> str:
    if low is None or low == "":
        return fmt.ABSENT
    return str(low) if low == high else f"{low} … {high}"


def detail_of(chunks: pa.Table, *, lead: str, chosen: int, limit: int = 16) -> Detail:
    """One file from `inspect.row_groups()`; `lead` is the column whose bounds label the groups."""
    name = chunks["file_name"][0].as_py()
    groups: dict[int, tuple[int, int, int, str]] = {}
    for row in chunks.select(["row_group", "rows", "group_bytes", "column", "min", "max"]).to_pylist():
        number = row["row_group"]
        members = groups.get(number)
        if members is None or (row["column"] == lead and row["min"] is not None):
            bounds = (
                fmt.key_range(row["min"], row["max"])
                if row["column"] == lead and row["min"] is not None
                else ""
            )
            groups[number] = (number, row["rows"], row["group_bytes"], bounds)
    chosen = chosen if chosen in groups else min(groups, default=0)
    here = chunks.filter(pc.equal(chunks["row_group"], chosen))
    codecs = ", ".join(sorted(set(chunks["codec"].to_pylist())))
    what = {"orc": "stripe", "avro": "block"}.get(name.rsplit(".", 1)[-1], "row group")
    summary = f"{fmt.plural(len(groups), what)} · {codecs}" + (
        f" · {lead} min … max below each" if lead else ""
    )
    rows = tuple(_chunk(row) for row in here.slice(0, limit).to_pylist())
    return Detail(name, summary, tuple(groups.values()), chosen, rows, here.num_rows)


def _chunk(row: Mapping[str, Any]) -> ColumnChunk:
    ratio = f"{row['raw_bytes'] / row['bytes']:.1f}×" if row["bytes"] and row["raw_bytes"] else fmt.ABSENT
    has_bounds = row["min"] is not None or row["max"] is not None
    return ColumnChunk(
        column=row["column"],
        type=row["type"].removesuffix(" NOT NULL"),
        codec=row["codec"],
        encodings=(row["encodings"] or fmt.ABSENT)
        .replace("_DICTIONARY", " dict")
        .replace("DELTA_BINARY_PACKED", "delta"),
        size=fmt.bytes_text(row["bytes"]),
        ratio=ratio,
        nulls=fmt.count(row["nulls"]),
        bounds=fmt.key_range(row["min"], row["max"]) if has_bounds else fmt.ABSENT,
    )


def text_form(model: ExplorerModel) -> str:
    """The explorer in a terminal: figures, the open tree, and the page of the table."""
    at = fmt.snapshot_id(model.snapshot)
    against = f" against {fmt.snapshot_id(model.against)}" if model.against is not None else ""
    rows = [f"{model.title} {at} {model.kind}{against}".strip()]
    if model.snapshot is None:
        return f"{model.title}: nothing written yet."
    rows.append("  ".join(f"{f.name} {f.value}" for f in model.figures))
    for node in model.nodes:
        mark = {True: "▾", False: "▸", None: " "}[node.open]
        here = ">" if node.path == model.path else " "
        rows.append(f"{here}{'  ' * node.depth}{mark} {node.label}  {node.note}".rstrip())
    listing = model.listing
    for row in listing.rows:
        if isinstance(row, FileRow):
            size = f"{row.rows:>12,} {fmt.bytes_text(row.bytes):>9}"
            rows.append(
                f"  {row.sign or ' '} L{row.shown_level} {fmt.file_name(row.name):<28}{size}  {row.keys}"
            )
        else:
            rows.append("    " + "  ".join(row.cells))
    if listing.found > len(listing.rows):
        last = listing.first + len(listing.rows)
        rows.append(f"  {listing.first + 1:,}–{last:,} of {listing.found:,}")
    if model.detail is not None:
        rows.append(f"{model.detail.name}: {model.detail.summary}")
        rows += [
            f"    {c.column:<20} {c.type:<14} {c.size:>9}  nulls {c.nulls}  {c.bounds}"
            for c in model.detail.chunks
        ]
    return "\n".join(plain(row) for row in rows)
