"""What is refused here because Paimon opens or writes no such table, it does refuse; mended it opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.java_paimon import JavaError, JavaPaimon
from tests.write.unopenable import CASES, Unopenable

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.names)
@pytest.mark.sample(4)
def test_java_refuses_what_is_refused_here(java: JavaPaimon, tmp_path: Path, case: Unopenable) -> None:
    keys = (["p", "k"] if case.partitioned else ["k"]) if case.keyed else []
    columns = {n: f"{t} NOT NULL" if n in keys else t for n, t in {"p": "STRING", "k": "INT"}.items()}

    def lived(name: str, options: dict[str, object]) -> None:
        path = str(tmp_path / "d.db" / name)
        partitions = ["p"] if case.partitioned else []
        kept = {"bucket": 1 if case.keyed else -1, **{k: v for k, v in options.items() if v is not None}}
        java.create(path, columns, primary_keys=keys, partition_keys=partitions, options=kept)
        java.write(path, [("a", 1)])
        if "scan.mode" not in kept:
            java.rows(path, options={"scan.snapshot-id": 1} if "scan.snapshot-id" not in kept else None)

    with pytest.raises(JavaError):
        lived("refused", case.options)
    lived("mended", {**case.options, **case.mended})
