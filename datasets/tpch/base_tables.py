"""Base tables as Parquet files in parts, made by `tpchgen-cli` and kept in the cache.

A cached table is a directory that appears by one rename, so its existence means that it is complete.
One process generates at a time (a file lock); what a killed one left is removed by the next.
The files are LZ4 compressed, in row groups of about 375,000 lineitems, because that reads fastest. They read
as `string_view` columns; `read` gives plain strings.
"""

import fcntl
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datasets.cachedir import cache_root
from datasets.errors import DatasetError
from datasets.progress import progress_bar
from datasets.tpch.scale import Scale, ScaleFactor
from datasets.tpch.schema import TABLES, plain

_FORMAT = ("--compression", "LZ4_RAW", "--row-group-bytes", "32MB")
_LAYOUT = "parquet-1"  # the directory name; a new one when _FORMAT changes
_BYTES_AT_ONE = {"lineitem": 218e6, "orders": 68e6, "partsupp": 55e6, "customer": 16e6, "part": 10e6}
_UNDIVIDED = ("nation", "region")


def base_rows(scale_factor: ScaleFactor | Scale) -> int:
    """Orders in the base table."""
    return Scale.of(scale_factor).orders


def base(
    scale_factor: ScaleFactor | Scale,
    tables: Sequence[str] = ("lineitem",),
    *,
    parts: int = 1,
    cache: Path | None = None,
    progress: bool = True,
) -> dict[str, list[Path]]:
    """The Parquet files of each table, in key order; generated into the cache the first time."""
    scale = Scale.of(scale_factor)
    if unknown := [table for table in tables if table not in TABLES]:
        raise DatasetError(f"no TPC-H table {unknown[0]!r}; there are {', '.join(TABLES)}")
    if parts < 1 or parts > scale.suppliers:
        raise DatasetError(f"parts {parts}: use 1 to {scale.suppliers} at scale factor {scale}")
    home = (cache or cache_root()) / "tpch" / _LAYOUT / f"sf{scale}"
    homes = {table: home / f"{table}-{1 if table in _UNDIVIDED else parts}" for table in tables}
    if not all(path.exists() for path in homes.values()):
        home.mkdir(parents=True, exist_ok=True)
        with _alone(home):
            missing = {table: path for table, path in homes.items() if not path.exists()}
            for undivided in (False, True):
                some = {t: path for t, path in missing.items() if (t in _UNDIVIDED) == undivided}
                if some:
                    _generate(scale, some, parts=1 if undivided else parts, progress=progress)
    return {table: _files(table, path) for table, path in homes.items()}


def _files(table: str, directory: Path) -> list[Path]:
    return sorted(directory.glob(f"{table}.*.parquet"), key=lambda path: int(path.name.split(".")[1]))


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Hold the lock of `home`; nobody else is generating, so unfinished directories are left-overs."""
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left_over in home.glob("generating-*"):
            shutil.rmtree(left_over, ignore_errors=True)  # an orphan may still be writing
        yield


def _generate(scale: Scale, targets: Mapping[str, Path], *, parts: int, progress: bool) -> None:
    """Make some tables, each in its place, by one run of the generator: a run begins with a second of work
    for the texts."""
    work = Path(tempfile.mkdtemp(prefix="generating-", dir=next(iter(targets.values())).parent))
    command = [_executable(), "parquet", "--scale-factor", str(scale), "--tables", ",".join(targets)]
    command += ["--parts", str(parts), *_FORMAT, "--output-dir", str(work), "--quiet"]
    expected = sum(_BYTES_AT_ONE.get(table, 2e6) for table in targets) * scale.thousandths / 1000
    names = ", ".join(targets)
    try:
        with progress_bar(
            f"generating {names} at scale factor {scale}", total=expected, shown=progress
        ) as advance:
            _run(command, work / "messages", lambda: advance(_size(work)))
        for table, target in targets.items():
            if (count := len(_files(table, work / table))) != parts:
                raise DatasetError(f"{command[0]} made {count} of {parts} parts of {table}")
            (work / table).rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command: list[str], messages: Path, tick: Callable[[], None]) -> None:
    with messages.open("w+b") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            while child.poll() is None:
                tick()
                time.sleep(0.05)
        finally:
            child.kill()
            child.wait()
        if child.returncode:
            output.seek(0)
            text = output.read().decode(errors="replace").strip()
            raise DatasetError(f"{command[0]} failed with exit status {child.returncode}: {text[-500:]}")


def _executable() -> str:
    beside = Path(sys.executable).parent / "tpchgen-cli"
    program = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if not program:
        raise DatasetError("tpchgen-cli is missing: pip install tpchgen-cli")
    return program


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.parquet"))


def read(
    path: Path, columns: Sequence[str] | None = None, *, batch_rows: int = 1 << 18
) -> Iterator[pa.RecordBatch]:
    """The rows of one file with plain strings, in batches of at most `batch_rows`."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_rows, columns=columns):
            yield plain(batch, columns)
