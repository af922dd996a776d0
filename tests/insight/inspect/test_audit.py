"""Amplification, attribution and previews against an auditor who reads the disk without the engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.insight.inspect.audit import Audit, Sums, place, state
from tests.write.lives import born, on_disk

NAMES = ("ingested", "compacted", "read", "moved", "changelog")
KEYED = {"primary_key": ["k"]}
KINDS: dict[str, dict[str, Any]] = {
    "append": {"options": {"bucket": -1, "deletion-vectors.enabled": True, "target-file-size": "2 kb"}},
    "buckets": {"options": {"bucket": 3, "bucket-key": "k"}},
    "vectors": KEYED | {"options": {"bucket": 2, "deletion-vectors.enabled": True}},
    "lookup": KEYED | {"options": {"bucket": 2, "changelog-producer": "lookup"}},
    "full": KEYED | {"options": {"bucket": 1, "changelog-producer": "full-compaction"}},
    "input": KEYED | {"options": {"bucket": 1, "changelog-producer": "input"}},
    "first-row": KEYED | {"options": {"bucket": 2, "merge-engine": "first-row"}},
    "dynamic": KEYED | {"options": {"bucket": -1, "dynamic-bucket.target-row-num": 40}},
    "postponed": KEYED | {"options": {"bucket": -2}},
    "leveled": KEYED | {"options": {"bucket": 2, "tablestore.compaction.strategy": "leveled"}},
    "crossing": {"primary_key": ["k"], "partition_by": ["p"], "options": {"bucket": -1}},
    "partitioned": {"primary_key": ["k", "p"], "partition_by": ["p"], "options": {"bucket": 2}},
    "external": KEYED | {"options": {"bucket": 2, "data-file.external-paths.strategy": "round-robin"}},
}


def grown(path: Path, kind: str, seed: int) -> ts.Table:
    """A table of some kind after random writes, deletes and compactions, none of its snapshots expired."""
    life, given = born(path / "rows", seed), KINDS[kind]
    options = given["options"] | {"num-sorted-run.compaction-trigger": 3}
    if kind == "external":
        options |= {"data-file.external-paths": f"file:{path}/far"}
    schema = {"k": ts.BIGINT, "p": ts.INT, "v": ts.STRING}
    t = ts.connect(str(path / "lake"), env=life.env, roots=[path / "far"]).create_table(
        "d.t", schema=schema, **given | {"options": options}
    )
    for _ in range(10):
        verb = life.rng.choices(["write", "delete", "compact", "full"], [6, 2, 2, 1])[0]
        if verb == "write":
            t.write(life._rows())
        elif verb != "delete":
            t.compact(full=verb == "full")
        elif kind not in ("buckets", "first-row", "postponed"):
            t.delete(ts.col("k") < life.rng.randrange(20))
        life.env.sleep(1)
    return t


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(4)
def test_an_auditor_finds_the_same_sums(tmp_path: Path, kind: str, seeds: tuple[int, ...]) -> None:
    t = grown(tmp_path, kind, seeds[0])
    audit = Audit(Path(t.location))
    assert_amplification(t, audit, f"{kind}, seed {seeds[0]}")
    assert_attribution(t, audit, f"{kind}, seed {seeds[0]}")


def assert_amplification(t: ts.Table, audit: Audit, context: str) -> None:
    flows, newest = audit.flows(), max(audit.snapshots)
    rows = {(r["partition"], r["bucket"]): r for r in t.inspect.amplification("bucket").to_pylist()}
    live = audit.live(newest)
    shown = {(t.store.partition_text(p), b): (p, b) for p, b in {*flows, *map(place, live)}}
    assert set(rows) <= set(shown), context
    for where, r in rows.items():
        mine = flows.get(shown[where], Sums())
        actual = tuple(r[f"bytes_{n}"] for n in NAMES)
        wanted = tuple(getattr(mine, n) for n in NAMES)
        assert actual[0] == wanted[0], (context, where)
        assert actual[4] == wanted[4], (context, where)
        if t.options["bucket"] != "-2":  # the job that moves waiting rows counts with bucket -2
            assert_compacted(actual[1:4], wanted[1:4], (context, where))
        assert r["write_amplification"] == pytest.approx(
            (actual[0] + actual[1]) / actual[0] if actual[0] else None
        )
        of = state(audit, [e for e in live if place(e) == shown[where]])
        assert (r["live_bytes"], r["live_files"], r["live_rows"], r["runs"]) == (
            *(of.bytes, of.files, of.rows),
            of.runs if t.primary_key else r["runs"],
        ), (context, where)
    (whole,) = t.inspect.amplification().to_pylist()
    sums = (
        [whole[f"bytes_{n}"] for n in NAMES[1:4]],
        [sum(getattr(f, n) for f in flows.values()) for n in NAMES[1:4]],
    )
    assert_compacted(*sums, context)
    assert whole["live_bytes"] == sum(r["live_bytes"] for r in rows.values()), context
    for r in t.inspect.amplification("snapshot").to_pylist():
        then = audit.live(r["snapshot_id"])
        here = [e for e in then if (t.store.partition_text(e["_PARTITION"]), e["_BUCKET"]) in rows]
        size, count = sum(audit.path(e).stat().st_size for e in here), len(here)
        assert (r["live_bytes"], r["live_files"]) == (size, count), (context, r["snapshot_id"])


def assert_compacted(actual: Sequence[int], wanted: Sequence[int], context: object) -> None:
    """Files that were written and replaced again within one commit are in the engine's records only."""
    assert all(a >= b for a, b in zip(actual, wanted, strict=True)), (context, actual, wanted)


def assert_attribution(t: ts.Table, audit: Audit, context: str) -> None:
    files = {r["path"]: r for r in t.inspect.storage().files.to_pylist()}
    inside = {p: r["bytes"] for p, r in files.items() if not r["outside"]}
    assert inside == on_disk(t), context
    needed: dict[str, list[int]] = {}
    writers: dict[str, int] = {}
    for n, snapshot in sorted(audit.snapshots.items()):
        changes = audit.entries(snapshot.get("changelogManifestList"))
        for e in audit.live(n) + changes:
            needed.setdefault(str(audit.path(e)), []).append(n)
            writers.setdefault(str(audit.path(e)), n)
    shown = {os.path.join(t.location, p): r for p, r in files.items()}
    data = {p: r for p, r in shown.items() if r["kind"] in ("data", "changelog")}
    assert set(data) == set(needed), context
    for path, r in data.items():
        ids = needed[path]
        assert (r["first_needed"], r["last_needed"]) == (min(ids), max(ids)), (context, path)
        assert r["written_by"] == writers[path], (context, path)
        assert r["bytes"] == os.stat(path).st_size
        assert (r["state"] == "live") == (max(ids) == max(audit.snapshots)), (context, path)


@pytest.mark.parametrize("kind", ["append", "lookup", "vectors", "external", "dynamic"])
def test_a_preview_of_expiry_names_what_the_disk_then_misses(
    tmp_path: Path, kind: str, seeds: tuple[int, ...]
) -> None:
    seed = seeds[0]
    t = grown(tmp_path, kind, seed)
    roots = (Path(t.location), tmp_path / "far")
    before = {p: p.stat().st_size for root in roots for p in root.rglob("*") if p.is_file()}
    asked = t.expire_snapshots(keep=2, dry_run=True)
    t.expire_snapshots(keep=2)
    gone = {str(p): size for p, size in before.items() if not p.exists()}
    assert {f.removeprefix("file:") for f in asked.files} == set(gone), seed
    assert asked.bytes == sum(gone.values())
    assert sum(files for _, files, _ in asked.kinds) == len(gone)
