"""Replays of tables that Java Paimon wrote and compacted: its levels come out of our picks again."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.explain.table_history import events
from tablestore.insight.inspect.amplification.ledger import Ledger
from tablestore.insight.simulator import ReplayedHistory
from tests.peers.java_paimon import JavaPaimon
from tests.read import golden

pytestmark = pytest.mark.peer
TRIGGER = "num-sorted-run.compaction-trigger"


def require_reproduced(history: ReplayedHistory) -> None:
    replay = history.replay()
    for place, real in history.real.items():
        assert {(f.level, f.file_name) for f in replay.levels[place].files} == {
            (f.level, f.file_name) for f in real.files
        }


@pytest.mark.parametrize("options", [{}, {"num-levels": 4, "compaction.size-ratio": 20}], ids=str)
@pytest.mark.sample(1)
def test_the_levels_of_a_java_table_come_out_again(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], options: dict[str, object]
) -> None:
    for seed in seeds[:1]:
        chance = random.Random(seed)
        path = str(tmp_path / f"d{seed}.db" / "t")
        options_set = {"bucket": 2, TRIGGER: 3, "snapshot.num-retained.min": 1000, **options}
        java.create(path, {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=options_set)
        for i in range(15):
            keys = [chance.randrange(500) for _ in range(chance.choice([20, 60, 150]))]
            rows = pa.table({"k": pa.array(keys, pa.int64()), "v": [f"{i} {k}" for k in keys]})
            java.write(path, rows, user="w", identifier=i)
            if chance.random() < 0.15:
                java.compact(path, full=chance.random() < 0.5, user="c", identifier=i)
        store = ts.open(path).store
        history = ReplayedHistory(events(store), store.schema, store.options)
        assert history.unexplained == []
        require_reproduced(history)
        ledger, kinds = Ledger(store.key_types), set[str]()
        for event in events(store):
            ledger.enter(event)
            kinds.add(event.kind)
        assert "COMPACT" in kinds
        ingested = sum(a.ingested for a in ledger.accounts.values())
        compacted = sum(a.compacted for a in ledger.accounts.values())
        wanted = (ingested + compacted) / ingested
        assert history.replay().write_amplification == pytest.approx(wanted, rel=0.02)
        assert history.replay(estimates=True).write_amplification == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("peer", ["java", "python"])
def test_golden_tables_of_peers_are_replayed(peer: str) -> None:
    seen = 0
    for name in getattr(golden, f"{peer}_tables")():
        store = getattr(golden, peer)(name)
        if store.schema.primary_keys:
            history = ReplayedHistory(events(store), store.schema, store.options)
            by_hand = name == "handwritten_compact"  # compacted by no rule
            assert bool(history.unexplained) == by_hand, name
            require_reproduced(history)
            seen += 1
    assert seen > 5
