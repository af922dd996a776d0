"""A compaction job in a process of its own beside a writer that goes on: nobody waits, nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts

JOB = """
import json, sys
import tablestore as ts
table = ts.open(sys.argv[1]).with_options({"write-only": False})
done = refused = 0
print("ready", flush=True)
for turn in range(int(sys.argv[2])):
    sys.stdin.readline()
    for full in (False, turn % 4 == 3):
        try:
            done += bool(table.refresh().compact(full=full).busy)
        except ts.CommitConflict:
            refused += 1
    print(json.dumps([done, refused]), flush=True)
"""
KINDS: dict[str, dict[str, Any]] = {
    "universal": {},
    "leveled": {
        "tablestore.compaction.strategy": "leveled",
        "tablestore.compaction.leveled.level0-file-num-trigger": 2,
        "tablestore.compaction.leveled.max-bytes-for-level-base": "8 kb",
        "num-levels": 4,
        "target-file-size": "6 kb",
    },
    "deletion vectors": {"deletion-vectors.enabled": True},
}
TURNS = 6


@pytest.mark.large
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1)
def test_a_job_compacts_while_a_writer_goes_on(tmp_path: Path, kind: str, seeds: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seeds[0])
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "v": ts.BIGINT},
        primary_key=["k"],
        options={"bucket": 2, "write-only": True, "num-sorted-run.compaction-trigger": 2, **KINDS[kind]},
    )
    model: dict[int, int] = {}
    command = [sys.executable, "-c", JOB, table.location, str(TURNS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        for _ in range(TURNS):
            for write in range(5):
                if write == 3:  # more runs wait than the trigger says: the job begins while this goes on
                    print(file=job.stdin, flush=True)
                keys = np.unique(rng.integers(0, 1200, 150))
                values = rng.integers(0, 1 << 40, len(keys))
                table.write(pa.table({"k": keys, "v": values}))
                model |= dict(zip(keys.tolist(), values.tolist(), strict=True))
            low = int(rng.integers(0, 1200))
            if kind != "deletion vectors":  # rows at level 0 are found by a merge only
                table.refresh().delete(ts.col("k").between(low, low + 60))
                model = {k: v for k, v in model.items() if not low <= k <= low + 60}
            done, refused = json.loads(job.stdout.readline())
        job.stdin.close()
    assert done > 0, refused
    assert done + refused >= TURNS, (done, refused)  # every turn has something to compact, done or refused
    table.refresh().with_options({"write-only": False}).compact(full=True)
    columns = table.refresh().scan().to_arrow().to_pydict()
    assert dict(zip(columns["k"], columns["v"], strict=True)) == model, f"seed {seeds[0]}"
    assert table.check() == []
    names = {f["file_path"].rsplit("/", 1)[1] for f in table.inspect.files().to_pylist()}
    assert names <= {p.name for p in tmp_path.rglob("data-*")}
