"""Small change directories for tests, written as `datasets/cdc/README.md` says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("price", pa.decimal128(15, 2)),
        pa.field("day", pa.date32()),
        pa.field("name", pa.string()),
    ]
)
_EPOCH = date(1970, 1, 1)


def row(i: int, name: str = "new") -> dict[str, Any]:
    """A row as it is in a table."""
    day = date.fromordinal(_EPOCH.toordinal() + 8000 + i % 700)
    return {"id": i, "price": Decimal(i) / 4, "day": day, "name": name}


def envelope(
    op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, table: str = "item"
) -> str:
    """One change event as a line."""
    value = {"before": _wire(before), "after": _wire(after), "source": {"table": table}, "op": op, "ts_ms": 1}
    return _line({"topic": f"srv.shop.{table}", "key": {"id": 1}, "value": value})


def transaction(events: Sequence[str], number: int = 1) -> str:
    """Events between BEGIN and END, as text that ends with a newline."""
    begin, end = (
        _line(
            {"topic": "srv.transaction", "key": {"id": number}, "value": {"status": s, "id": f"0-1-{number}"}}
        )
        for s in ("BEGIN", "END")
    )
    return "\n".join([begin, *events, end]) + "\n"


def inserts(ids: Sequence[int], name: str = "new") -> str:
    """One transaction that inserts rows."""
    return transaction([envelope("c", None, row(i, name)) for i in ids])


def directory(path: Path, *, chunks: Sequence[Sequence[int]], log: Sequence[str], ended: bool = True) -> Path:
    """A change directory of the table `item`: ids of each chunk, text of each log file."""
    (path / "chunks").mkdir(parents=True)
    (path / "log").mkdir()
    entries = []
    for n, ids in enumerate(chunks, 1):
        rows = pa.Table.from_pylist([row(i, "base") for i in ids], SCHEMA)
        views = rows.set_column(3, "name", rows["name"].cast(pa.string_view()))
        name = f"chunks/{n:05}.parquet"
        pq.write_table(views, path / name)
        entries.append(
            {"table": "item", "number": n, "file": name, "lo": ids[0], "hi": ids[-1], "rows": len(ids)}
        )
    (path / "chunks.json").write_text(json.dumps(entries))
    about = {
        "version": 1,
        "tables": ["item"],
        "keys": {"item": ["id"]},
        "scale": "0",
        "seed": 0,
        "pairs": len(log),
    }
    (path / "source.json").write_text(json.dumps(about))
    for n, text in enumerate(log, 1):
        (path / "log" / f"{n:05}.jsonl").write_text(text)
    if ended:
        (path / "log" / "END").write_text("{}")
    return path


def _wire(image: dict[str, Any] | None) -> dict[str, Any] | None:
    if image is None:
        return None
    days = (image["day"] - _EPOCH).days
    return {**image, "price": f"{image['price']:.2f}", "day": days}


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
