"""Expiry as we foretell it is the expiry that Java Paimon carries out on the same table."""

from __future__ import annotations

import shutil
from pathlib import Path

import tablestore as ts
from tablestore.meta import refs
from tablestore.write import reachable
from tests.peers.java_paimon import JavaPaimon
from tests.write.lives import lived, on_disk

OURS = ("snapshot/EARLIEST", "tablestore/")  # what each engine writes by itself


def test_java_removes_the_files_that_our_preview_names(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[:3]:
        life = lived(tmp_path / f"{seed}", seed, never=("branch",))  # Java's expiry knows no branches
        t = life.table
        if t.store.options.changelog_decoupled or t.store.snapshots.latest_id() is None:
            continue
        kept = life.rng.randrange(1, 4)
        t.alter(ts.set_options({"snapshot.expire.limit": 1000}))
        copy = tmp_path / f"{seed}-java"
        shutil.copytree(t.location, copy)
        asked = t.refresh().expire_snapshots(keep=kept, dry_run=True)
        before, told = on_disk(t), changes_of_tags(t)
        java.expire(str(copy), max=kept, min=kept)
        left = on_disk(ts.open(str(copy)))
        gone = {p: n for p, n in before.items() if p not in left and not p.startswith(OURS)}
        local = {p.removeprefix(f"{t.location}/") for p in asked.files}
        assert local <= set(gone), seed
        assert set(gone) - local <= told, seed
        assert sum(n for p, n in gone.items() if p not in told) == asked.bytes, seed


def changes_of_tags(t: ts.Table) -> set[str]:
    """Changelog files of tagged snapshots, with manifests: tags of ours keep them, those of Java do not."""
    found: set[str] = set()
    for snapshot in refs.tags(t.store).values():
        files = reachable.changelog_files(t.store, snapshot)
        found |= {p.removeprefix(f"{t.location}/") for p in files.paths}
    return found
