"""Changes of one snapshot come in the order in which they happened, however many files tell them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import tablestore as ts


@pytest.mark.parametrize("producer", ["lookup", "input"])
def test_changes_of_several_compactions_in_one_commit_come_in_their_order(
    tmp_path: Path, seeds: tuple[int, ...], producer: str
) -> None:
    options = {"bucket": 1, "changelog-producer": producer, "write-buffer-size": "4 kb"}
    options |= {"num-sorted-run.compaction-trigger": 2, "num-sorted-run.stop-trigger": 2}
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = ts.connect(str(tmp_path / str(seed))).create_table(
            "d.t", schema={"k": ts.INT, "v": ts.STRING}, primary_key=["k"], options=options
        )
        t.write([{"k": k, "v": f"old {k}"} for k in range(40)])
        with t.writer() as w:  # a small buffer: several flushes, and compactions between them
            for n in range(120):
                w.write([{"k": rng.randrange(40), "v": f"{n} {i}" + "x" * 40} for i in range(20)])
        files = t.store.manifests.changelog_entries(t.store.snapshots.get(t.store.snapshots.latest_id()))
        last: dict[int, str] = {}
        for row in t.changes(since=0).to_pylist():
            if producer == "lookup" and row["rowkind"] in ("-U", "-D"):
                assert last.pop(row["k"]) == row["v"], (seed, len(files))
            else:
                last[row["k"]] = row["v"]
        assert last == {r["k"]: r["v"] for r in t.scan().to_arrow().to_pylist()}, (seed, len(files))


@pytest.mark.parametrize("producer", ["lookup", "full-compaction", "input", "none"])
def test_a_key_that_moves_is_deleted_in_one_partition_before_it_is_inserted_in_the_other(
    tmp_path: Path, seeds: tuple[int, ...], producer: str
) -> None:
    options = {"bucket": -1, "changelog-producer": producer, "dynamic-bucket.target-row-num": 10}
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = ts.connect(str(tmp_path / str(seed))).create_table(
            "d.t",
            schema={"k": ts.INT, "p": ts.INT, "v": ts.INT},
            primary_key=["k"],
            partition_by=["p"],
            options=options | {"write-buffer-size": "600 b", "num-sorted-run.compaction-trigger": 2},
        )
        for _ in range(6):
            kinds = ("+I", "+I", "+I", "-D")
            changes = [
                {"kind": rng.choice(kinds), "k": rng.randrange(20), "p": rng.randrange(3), "v": n}
                for n in range(30)
            ]
            t.write(changes, row_kind_column="kind")
        t.compact(full=True)
        last: dict[int, tuple[int, int]] = {}
        for step in t.stream(start="earliest", follow=False, normalize=False):
            for row in step.to_arrow().to_pylist():
                last.pop(row["k"], None)
                if row["rowkind"] in ("+I", "+U"):
                    last[row["k"]] = row["p"], row["v"]
        assert last == {r["k"]: (r["p"], r["v"]) for r in t.scan().to_arrow().to_pylist()}, seed
        kinds = t.changes(since=0).column("rowkind").to_pylist()
        assert sorted(kinds) == sorted(
            kind
            for step in t.stream(start="earliest", follow=False, normalize=False, columns=["v"])
            for kind in step.to_arrow().column("rowkind").to_pylist()
        )
