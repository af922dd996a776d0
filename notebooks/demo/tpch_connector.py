"""The SQL connector `tpch-cdc`: a reproducible TPC-H change stream as a temporary table.

A process that follows it makes the stream first: chunks of a snapshot, then refresh pairs as a database would
write them to its log. The same options give the same rows.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from datasets import cdc
from datasets.cachedir import cache_root
from tablestore.cdc.directory_stream import DirectoryStream
from tablestore.core.errors import InvalidOption
from tablestore.core.options.values import one_of
from tablestore.flow.source import StreamSource
from tablestore.sql.connectors.connector import (
    Connector,
    ConnectorOptions,
    Option,
    always,
    count,
    whole,
)

_PACED: dict[Path, threading.Thread] = {}  # who appends to a log, by directory


def _pace(text: str) -> str | float | None:
    if text in ("none", "article", "manual"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise ValueError("none, manual, article or seconds for each pair") from None


_OPTIONS = (
    Option("table", "lineitem or orders", one_of("lineitem", "orders"), default="lineitem"),
    Option("scale-factor", "of TPC-H", default="0.01"),
    Option("pairs", "refresh pairs in the log", whole, default=10),
    Option("seed", "where the log is cut into transactions", whole, default=0),
    Option(
        "pace",
        "none: the whole log is there at once; seconds for each pair; article: as the source article waits; "
        "manual: `datasets.cdc.advance(path)` appends",
        _pace,
    ),
    Option(
        "path",
        "the directory of the stream; by default one in the cache, for streams without a pace",
        place=always,
    ),
    Option("chunks-per-batch", "chunks of the snapshot in one batch", count, default=8),
)


def _stream(options: ConnectorOptions) -> StreamSource:
    values = options.values
    home, pace = _home(values), values["pace"]
    manual = pace == "manual"
    tables = ("orders", "lineitem")
    cdc.generate(
        home,
        values["scale-factor"],
        pairs=values["pairs"],
        seed=values["seed"],
        pace=1.0 if manual else pace,
        tables=tables,
        progress=False,
    )
    if pace is not None and not manual and not (home in _PACED and _PACED[home].is_alive()):
        _PACED[home] = threading.Thread(target=cdc.pump, args=(home,), name=f"pace of {home}", daemon=True)
        _PACED[home].start()
    chunks = values["chunks-per-batch"]
    return DirectoryStream(str(home), values["table"], options.schema, chunks_per_batch=chunks)


def _home(values: Any) -> Path:
    if values["path"]:
        return Path(values["path"]).absolute()
    if values["pace"] is not None:
        raise InvalidOption("a stream with a pace needs option 'path': the directory that it grows in")
    name = f"{values['scale-factor']}-{values['pairs']}-{values['seed']}"
    return cache_root() / "tpch-cdc" / name


CONNECTOR = Connector("tpch-cdc", "a reproducible TPC-H change stream", _OPTIONS, stream=_stream)
