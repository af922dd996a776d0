"""What our normaliser tells of upserts is what Java Paimon's lookup changelog tells of the same ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer

FIELDS = {"k": "INT NOT NULL", "v": "STRING", "n": "INT"}


@pytest.mark.parametrize("merging", [{}, {"sequence.field": "n"}], ids=["arrival", "sequence field"])
@pytest.mark.sample(1)
def test_normalised_upserts_are_the_changelog_of_java(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], merging: dict[str, Any]
) -> None:
    with_lookup = {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"}
    for seed in seeds[:1]:
        rng = random.Random(seed)
        plain, other = str(tmp_path / f"{seed}.db/plain"), str(tmp_path / f"{seed}.db/told")
        for path, options in ((plain, {}), (other, with_lookup)):
            java.create(path, FIELDS, primary_keys=["k"], options={"bucket": 1} | merging | options)
        for commit in range(10):
            rows = [
                (rng.randrange(6), rng.choice(["a", "b", None]), rng.randrange(4))
                for _ in range(rng.randrange(1, 6))
            ]
            gone = "+U" if merging else "-D"  # when a delete is dropped shows if older rows come after it
            kinds = [rng.choice(["+I", "+U", gone, "+I"]) for _ in rows]
            for path in (plain, other):
                java.write(path, rows, kinds=kinds, identifier=commit)
        theirs = [p["changes"] for p in java.stream(other) if p["changes"]]
        ours = [
            [list(r.values()) for r in s.to_arrow().to_pylist()]
            for s in ts.open(plain).stream(start="earliest", follow=False)
        ]
        assert ours == theirs, seed
