"""Tables that other engines wrote, copied into a folder of one's own, with the rows those engines read.

They are the golden tables of the tests, in the checkout; the originals are never opened for writing.
`read_by_pypaimon` asks another implementation of the format, if there is one. Called by notebook 13.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tablestore as ts
from tablestore.core.errors import NotFound

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
TABLES = {
    "java": "paimon-java/warehouse/j.db/pk_levels",
    "python": "paimon/warehouse/g.db/pk_upsert_delete",
}
EXPECTED = {
    "java": "paimon-java/expected/pk_levels.json",
    "python": "paimon/expected/pk_upsert_delete@3.parquet",
}
PATIENCE = 120


@dataclass(frozen=True, slots=True)
class Foreign:
    """A copy of another engine's table, and the rows that engine reads from it."""

    table: ts.Table
    rows: pa.Table

    @property
    def folder(self) -> Path:
        """The directory of the copy."""
        return Path(self.table.location)


def foreign(writer: str, warehouse: str | Path) -> Foreign:
    """A table by `writer` (java: Paimon 2.0.0, python: pypaimon 2.1.0), copied into `warehouse`.

    Raises NotFound for a checkout without its tests.
    """
    if writer not in TABLES:
        raise NotFound.among("writer", writer, TABLES)
    source = GOLDEN / TABLES[writer]
    if not source.exists():
        raise NotFound(f"no table at {source}: notebooks run from a checkout that has its tests/ folder")
    copy = Path(warehouse) / source.parent.name / source.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    table = ts.open(copy)
    return Foreign(table, _expected(GOLDEN / EXPECTED[writer], table.schema))


def _expected(path: Path, schema: pa.Schema) -> pa.Table:
    """What the other engine reads, in the table's types."""
    if path.suffix == ".parquet":
        return pq.read_table(path).select(schema.names).cast(schema)
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return pa.table(
        [pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )


def with_options(source: Path, warehouse: str | Path, options: Mapping[str, str]) -> ts.Table:
    """A copy of a table whose schema file says more: what another engine could have stored."""
    number = len(list(Path(warehouse).glob("*/*")))
    copy = Path(warehouse) / source.parent.name / f"{source.name}_{number}"
    shutil.copytree(source, copy)
    newest = max((copy / "schema").glob("schema-*"), key=lambda path: int(path.name.partition("-")[2]))
    stored = json.loads(newest.read_text(encoding="utf-8"))
    stored["options"] |= options
    newest.write_text(json.dumps(stored), encoding="utf-8")
    return ts.open(copy)


def pypaimon() -> Path | None:
    """A Python that has pypaimon: this one, or the one the tests made; None if there is none."""
    if importlib.util.find_spec("pypaimon") is not None:
        return Path(sys.executable)
    environment = Path(sys.prefix) / "peers" / "pypaimon"
    return environment / "bin" / "python" if (environment / "lock.crc").exists() else None


def read_by_pypaimon(table: ts.Table) -> pa.Table | None:
    """The table's rows as pypaimon reads them; None where there is no pypaimon."""
    python = pypaimon()
    if python is None:
        return None
    place = Path(table.location)
    name = f"{place.parent.name.removesuffix('.db')}.{place.name}"
    script = Path(__file__).with_name("by_pypaimon.py")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.parquet"
        command = [str(python), "-I", str(script), str(place.parents[1]), name, str(out)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
        return pq.read_table(out).cast(table.schema)
