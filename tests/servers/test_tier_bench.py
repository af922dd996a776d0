"""`./workbench bench tier` on a few rows: what it measures, and beside what. No time is asserted."""

from __future__ import annotations

import argparse
import re

import pytest

import tablestore as ts
from notebooks.bench import tier
from notebooks.bench.contenders import contender
from notebooks.bench.contenders.contender import Refused
from tablestore.fluss.tables import FlussTable
from tablestore.fluss.write import TableWriter
from tests.servers.fluss import Fluss

ROWS = 3_000


def filled_table(fluss: Fluss, kind: str) -> FlussTable:
    """Made by a test itself, so that it is on the cluster on which a test is done once more."""
    table = tier.made(fluss.admin, kind)
    tier.fill(TableWriter(fluss.cluster, table), kind, ROWS)
    return table


class Copying:
    """A contender that copies `part` of the rows by a round of ours."""

    def __init__(self, part: float) -> None:
        self.part = part

    def step(
        self, name: str, address: str, path: object, records: int, warehouse: object, *_: object
    ) -> contender.Measured:
        lake = ts.connect(warehouse)
        other = ts.connect(f"{warehouse}-other")
        other.tier(f"fluss://{address}", tables=str(path), follow=False).wait()
        rows = other.table(str(path)).scan().to_arrow()
        lake.table(str(path)).write(rows.slice(0, int(rows.num_rows * self.part)))
        assert (name, records) == ("tier", ROWS if "log" in str(path) else ROWS + ROWS // 5)
        return contender.Measured(4.0, 2.0, 0, 0, 0, {"first": "1.0"})


@pytest.mark.parametrize("kind", ["log", "keyed"])
@pytest.mark.sample(1)
def test_both_copy_the_same_rows(fluss: Fluss, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = argparse.Namespace(runs=1, threads=2)
    tier.compare(fluss.address, filled_table(fluss, kind), kind, chosen, Copying(1.0))
    ours, theirs = capsys.readouterr().out.splitlines()
    most = ROWS if kind == "log" else ROWS + ROWS // 5
    match = re.match(rf"{kind} +([\d,]+) rows in ", ours)
    assert match, ours
    rows = int(match[1].replace(",", ""))
    assert rows == most if kind == "log" else 0 < rows <= most, "of keys in a snapshot the newest row is read"
    assert all(f" {part} " in ours for part in ("plan", "fetch", "decode", "write", "commit"))
    assert theirs.startswith("flink  the same in 4.00 s, 3.00 s from its first row on: ")


def test_a_peer_whose_table_lacks_rows_is_refused(fluss: Fluss) -> None:
    filled = filled_table(fluss, "log")
    ours = tier.measured(fluss.address, filled, "log", 2)
    assert ours.content[0] == ROWS
    with pytest.raises(Refused, match="its table has"):
        tier.of_flink(Copying(0.5), fluss.address, filled, ours)
