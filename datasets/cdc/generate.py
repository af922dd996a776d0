"""Makes the directory of a change stream: chunks from the cached base tables, the log from the refresh sets.

Every file is written under a dotted name and renamed when complete, except the growing file of a paced log,
which continues where its bytes end. Both work because the bytes follow from `source.json` alone.
One writer at a time (a file lock). Used by the demo, the notebooks and `python -m datasets.cdc`.
"""

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq

from datasets import tpch
from datasets.cdc import plan
from datasets.cdc.envelope import LogText, TableEvents, render
from datasets.cdc.source import LOG_START, VERSION, Pace, Source, describe, open_source
from datasets.errors import DatasetError
from datasets.progress import progress_bar
from datasets.tpch.rows import OrderRows
from datasets.tpch.scale import MAX_SET, ScaleFactor

_ARTICLE_DELETES_AFTER, _ARTICLE_NEXT_AFTER = 10.0, 120.0  # seconds
_RENDERED_AT_ONCE = 16_384  # orders; bounds the memory that a piece of log takes to about 60 MB
_TABLES = ("orders", "lineitem")  # the order of their events within an order


def generate(
    directory: Path | str,
    scale_factor: ScaleFactor,
    *,
    pairs: int = 10,
    seed: int = 0,
    pace: Pace = None,
    tables: Sequence[str] = ("lineitem",),
    sizes: Literal["auto", "dbgen", "spec"] = "auto",
    progress: bool = True,
) -> Source:
    """A complete source in `directory`; with a pace, one whose log `pump` has yet to write.

    May be called again with the same arguments: what is there stays, what is missing is made.
    """
    home = Path(directory)
    wanted = _settings(tpch.Scale.of(scale_factor), pairs, seed, pace, tables, sizes)
    _claim(home, wanted)
    with _alone(home):
        _ensure_chunks(describe(home), progress=progress)
        source = open_source(home)
        if pace is None:
            _write_log(source, progress=progress)
    return source


def pump(directory: Path | str, *, stop: threading.Event | None = None) -> None:
    """Append to the log at the source's pace until it is complete, or until `stop` is set. Blocks."""
    source = open_source(directory)
    stop = stop or threading.Event()
    with _alone(source.directory):
        for pair in range(1, source.pairs + 1):
            path = source.directory / "log" / _log_name(pair)
            following = path.with_name(_log_name(pair + 1))
            if not following.exists() and not _grow(source, pair, path, stop):
                return
        _finish(source)


def advance(directory: Path | str, pairs: int = 1) -> int:
    """Append the next `pairs` refresh pairs to the log of a paced source, each at once; gives how many it
    then has. The log is complete with the last one.
    """
    source = open_source(directory)
    with _alone(source.directory):
        first = _whole_pairs(source) + 1
        last = min(first + pairs - 1, source.pairs)
        for pair in range(first, last + 1):
            _grow(source, pair, source.directory / "log" / _log_name(pair), _Hurry())
        if last == source.pairs:
            _finish(source)
    return last


def _whole_pairs(source: Source) -> int:
    """How many pairs are in the log; one that was cut short is not."""
    files = source.log_files()
    if not files:
        return 0
    newest, size = len(files), files[-1].stat().st_size
    return newest if size == sum(len(piece.log.text) for piece in _pieces(source, newest)) else newest - 1


class _Hurry(threading.Event):
    """Somebody who never waits and never stops."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


def _settings(
    scale: tpch.Scale, pairs: int, seed: int, pace: Pace, tables: Sequence[str], sizes: str
) -> dict[str, object]:
    """The content of source.json, checked."""
    if not isinstance(pairs, int) or not 0 <= pairs <= MAX_SET:
        raise DatasetError(f"pairs {pairs}: use 0 to {MAX_SET}")
    if not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise DatasetError(f"seed {seed}: use a whole number from 0 to {2**31 - 1}")
    if not (pace in (None, "article") or (isinstance(pace, int | float) and pace > 0)):
        raise DatasetError(f'pace {pace!r}: use None, "article", or seconds for each pair')
    if not tables or len(set(tables)) != len(tables) or not set(tables) <= set(_TABLES):
        raise DatasetError(f"tables {list(tables)}: use lineitem, orders, or both")
    if sizes not in ("auto", "dbgen", "spec"):
        raise DatasetError(f'sizes {sizes!r}: use "auto", "dbgen" or "spec"')
    note = ""
    if sizes == "auto":
        sizes = "dbgen" if scale.refresh_orders("dbgen") else "spec"
        if sizes == "spec":
            note = (
                f"dbgen's refresh sets are empty at scale factor {scale}; "
                f"these have the specification's size, {scale.refresh_orders('spec')} orders a set"
            )
    keys = {table: list(tpch.PRIMARY_KEYS[table]) for table in tables}
    settings = {"version": VERSION, "tables": list(tables), "keys": keys, "scale": str(scale), "seed": seed}
    return {**settings, "pairs": pairs, "sizes": sizes, "pace": pace, "note": note}


def _claim(home: Path, wanted: dict[str, object]) -> None:
    """Write source.json, or check that the one there says the same."""
    path = home / "source.json"
    (home / "log").mkdir(parents=True, exist_ok=True)
    (home / "chunks").mkdir(exist_ok=True)
    if not path.exists():
        _publish(path, json.dumps(wanted, indent=1).encode())
    describe(home)
    summary = json.loads(path.read_bytes())
    if different := [name for name in wanted if summary.get(name) != wanted[name]]:
        listed = ", ".join(f"{name} {summary.get(name)} (asked: {wanted[name]})" for name in different)
        raise DatasetError(f"{home} holds another source: {listed}; use another directory or remove this one")


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatasetError(f"another process is writing {home}") from None
        yield


def chunk_count(scale: tpch.Scale) -> int:
    """Chunks of one table: about 3.75 million lineitems each at large scales, at least four."""
    return max(4, -(-scale.thousandths * 16 // 10_000))


def _ensure_chunks(source: Source, *, progress: bool) -> None:
    index = source.directory / "chunks.json"
    if index.exists():
        return
    files = tpch.base(source.scale, source.tables, parts=chunk_count(source.scale), progress=progress)
    entries: list[dict[str, object]] = []
    for table, paths in files.items():
        for path in paths:
            entries.append(_chunk(source.directory, table, path, number=len(entries) + 1))
    _publish(index, ("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n").encode())


def _chunk(home: Path, table: str, chunks: Path, *, number: int) -> dict[str, object]:
    """Put a cached file into place, as a hard link if the file system allows, and describe it."""
    name = f"chunks/{number:05}.parquet"
    temporary = home / "chunks" / f".{number:05}.parquet"
    temporary.unlink(missing_ok=True)
    try:
        os.link(chunks, temporary)
    except OSError:
        shutil.copyfile(chunks, temporary)
    temporary.replace(home / name)
    temporary.unlink(missing_ok=True)  # renaming a link onto another link of the same file leaves both
    metadata = pq.read_metadata(home / name)
    ranges = [metadata.row_group(group).column(0).statistics for group in range(metadata.num_row_groups)]
    return {
        "table": table,
        "number": number,
        "file": name,
        "lo": min(r.min for r in ranges),
        "hi": max(r.max for r in ranges),
        "rows": metadata.num_rows,
        "bytes": (home / name).stat().st_size,
        "position": list(LOG_START),
    }


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of a log file: one or more transactions of one half of a pair."""

    half: int
    log: LogText


def _pieces(source: Source, pair: int) -> Iterator[_Piece]:
    """The content of a pair's log file, in pieces."""
    changes = tpch.refresh(source.scale, pair, sizes=source.sizes)
    offset = 0
    for half in (plan.INSERTS, plan.DELETES):
        cuts = plan.transactions(source.scale, source.sizes, source.seed, pair=pair, half=half)
        if not len(cuts):
            continue
        rows = changes.inserted if half == plan.INSERTS else changes.deleted
        groups = np.flatnonzero(np.diff(cuts.ends // _RENDERED_AT_ONCE)) + 1
        for first, last in zip([0, *groups], [*groups, len(cuts)], strict=True):
            part = cuts.slice(int(first), int(last))
            events = _events(rows, source.tables, int(part.starts[0]), int(part.ends[-1]))
            log = render(events, part, half=half, file=_log_name(pair), offset=offset)
            offset += len(log.text)
            yield _Piece(half, log)


def _events(rows: OrderRows, tables: Sequence[str], first: int, last: int) -> list[TableEvents]:
    """The events of orders first..last-1 of a set."""
    events = []
    for table in (t for t in _TABLES if t in tables):
        batch = rows.orders if table == "orders" else rows.lineitem
        order = np.arange(len(batch)) if table == "orders" else rows.line_order
        begin, end = (int(n) for n in np.searchsorted(order, [first, last]))
        events.append(TableEvents(table, batch.slice(begin, end - begin), order[begin:end]))
    return events


def _write_log(source: Source, *, progress: bool) -> None:
    """Write the files that are missing, each at once, and END."""
    with progress_bar(f"writing {source.pairs} refresh pairs", total=source.pairs, shown=progress) as advance:
        for pair in range(1, source.pairs + 1):
            path = source.directory / "log" / _log_name(pair)
            if not path.exists():
                temporary = path.with_name(f".{path.name}")
                with temporary.open("wb") as out:
                    for piece in _pieces(source, pair):
                        out.write(piece.log.text)
                temporary.replace(path)
            advance(pair)
    _finish(source)


def _grow(source: Source, pair: int, path: Path, stop: threading.Event) -> bool:
    """Bring a pair's file to its full size, waiting before transactions that are new. False if stopped."""
    with path.open("ab", buffering=0) as out:
        have = out.tell()
        for wait, first, text in _paced(source, pair):
            if have <= first and stop.wait(wait):
                return False
            while have < first + len(text):
                have += out.write(text[have - first :])
    return True


def _paced(source: Source, pair: int) -> Iterator[tuple[float, int, memoryview]]:
    """Seconds to wait before it, offset and text of each transaction of a pair."""
    cuts = [plan.transactions(source.scale, source.sizes, source.seed, pair=pair, half=h) for h in (0, 1)]
    first, half = 0, plan.INSERTS
    for piece in _pieces(source, pair):
        begin = first
        for end in piece.log.ends.tolist():
            if source.pace != "article":
                wait = float(source.pace or 0) / sum(map(len, cuts))
            elif piece.half != half:
                wait = _ARTICLE_DELETES_AFTER
            else:
                wait = _ARTICLE_NEXT_AFTER if pair > 1 and first == 0 else 0.0
            yield wait, first, piece.log.text[first - begin : end - begin]
            first, half = end, piece.half


def _finish(source: Source) -> None:
    end = source.log_end()
    _publish(source.directory / "log" / "END", json.dumps({"file": end.file, "offset": end.offset}).encode())


def _log_name(pair: int) -> str:
    return f"{pair:05}.jsonl"


def _publish(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(content)
    temporary.replace(path)
