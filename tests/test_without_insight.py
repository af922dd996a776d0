"""The engine without `tablestore.insight`: it writes, compacts, reads, follows and expires; what looks at a
table says what is missing.

Each case runs in a process of its own, where an import hook refuses the package.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REFUSED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[:2] == ["tablestore", "insight"]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
import pyarrow as pa
import tablestore as ts
rows = lambda *ks: pa.table({"k": pa.array(ks, pa.int32()), "v": pa.array(ks, pa.int32())})
"""
TABLE = """
lake = ts.connect(sys.argv[1])
t = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 2})
"""
CASES = {
    "a store is written and read": """
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.meta.store import Store
from tablestore.read.scan.plan import plan
from tablestore.write.commit.committer import CommitRequest, Committer
from tablestore.write.table_write import TableWrite, WriteSettings
store = Store.open(t.location)
for ks in (range(8), range(4, 12)):
    target = TableWrite(store, WriteSettings(), pool=MemoryPool(1 << 24))
    for batch in rows(*ks).to_batches():
        target.write(batch)
    Committer(store).commit(target.prepare(), CommitRequest(store.fresh_user()))
found = plan(store, store.snapshots.latest())
assert found.summary == "skipped none of 4 files", found.summary
read = [b for s in found.splits for b in s.read(store, ("k",))]
assert sorted(k for b in read for k in b.column(0).to_pylist()) == list(range(12))
""",
    "a table is written, compacted, read, followed and expired": """
for ks in (range(8), range(4, 12), range(8, 16)):
    t.write(rows(*ks))
t.delete(ts.where("k < 2"))
done = t.compact(full=True)
assert done.committed.snapshots and done.forecast is None and "read" in done.text
assert sorted(t.scan().to_arrow()["k"].to_pylist()) == list(range(2, 16))
assert t.scan(where="k = 3").count() == 1 and t.get({"k": 3}) == {"k": 3, "v": 3}
assert sum(b.num_rows for c in t.stream(start="latest-full", follow=False) for b in c.batches) == 14
t.alter(ts.add("w", ts.INT)).write(rows(99), )
assert len(t.expire_snapshots(keep=1).snapshots) >= 4
assert not hasattr(t, "nothing")
""",
    "what has no card shows its text": """
t.write(rows(1, 2))
for value in (lake, t, t.scan(), t.scan().plan(), t.scan().snapshot, t.compact(full=True)):
    assert value._repr_html_() is None and repr(value)
""",
    "an append table is combined": """
a = lake.create_table("d.a", schema={"k": ts.INT, "v": ts.INT})
for k in range(6):
    a.write(rows(k))
a.compact(full=True)
assert a.scan().count() == 6
""",
}
ASKED = {
    "Table.inspect": "t.inspect",
    "Table.check": "t.check()",
    "Table.mend": "t.mend()",
    "Table.what_if": "t.what_if({})",
    "Table.system": "t.system('snapshots')",
    "Table.compact(dry_run=True)": "t.compact(dry_run=True)",
    "Scan.explain": "t.scan().explain()",
    "Lake.table of system tables": "lake.table('sys.tables')",
    "tablestore.advise_buckets": "ts.advise_buckets(rows(1))",
    "tablestore.mend": "ts.mend(t.location)",
    "tablestore.simulator": "ts.simulator()",
    "tablestore.what_if": "ts.what_if",
}


def run(code: str, lake: Path) -> None:
    parts = [REFUSED, TABLE, code, "assert not any('insight' in m for m in sys.modules), sys.modules"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(parts), str(lake)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sample(1)
def test_the_engine_works_without_insight(case: str, tmp_path: Path):
    run(CASES[case], tmp_path)


def test_what_looks_at_a_table_says_what_is_missing(tmp_path: Path):
    checks = [
        f"try:\n    {call}\nexcept ts.Unsupported as e:\n"
        f"    assert {name!r} in str(e) and 'tablestore.insight' in str(e), str(e)\n"
        f"else:\n    raise AssertionError({name!r})"
        for name, call in ASKED.items()
    ]
    run("\n".join(checks), tmp_path)


def test_a_table_is_opened_without_loading_insight(tmp_path: Path):
    code = (
        "import sys, tablestore as ts; ts.connect(sys.argv[1]).tables(); "
        "assert not any(m.startswith('tablestore.insight') for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True)


def test_a_lake_is_opened_without_loading_pandas(tmp_path: Path):
    """Arrow loads it at the first array made of Python's values, which costs as much as the engine."""
    code = (
        "import sys, tablestore as ts; ts.connect(sys.argv[1]).tables(); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True)
