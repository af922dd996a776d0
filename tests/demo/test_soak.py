"""`soak`: faults by a seed, verdicts by their arithmetic, comparisons that see what is wrong; and a short run
with a kill in it.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from notebooks.cli import soak as verb
from notebooks.demo import postgres, shop_stream
from notebooks.soak import beside, schedule
from notebooks.soak.database import ACCOUNTS, CENTS
from notebooks.soak.figures import MEMORY, Figures
from notebooks.soak.run import shop_differences
from notebooks.soak.verdicts import FLAT, GROWS, LEAST_SAMPLES, SHORT, longest_life, verdict
from tablestore.cli.door import ExitCode
from tests.suite import counterparts

ROOT = Path(__file__).parents[2]


def test_a_seed_gives_its_faults_one_at_a_time_and_each_target_its_turn(seeds: tuple[int, ...]):
    for seed in seeds:
        targets = ("cdc", "tier", "MariaDB")
        planned = schedule.faults(seed, 600, targets)
        assert planned == schedule.faults(seed, 600, targets)
        assert planned != schedule.faults(seed + 1, 600, targets)
        ends = [fault.at + fault.seconds for fault in planned]
        assert all(end < later.at for end, later in zip(ends, planned[1:], strict=False))
        assert planned[0].at > 0
        assert ends[-1] < 600
        assert {fault.target for fault in planned[:3]} == set(targets)
        assert {fault.kind for fault in schedule.faults(seed, 1e6, targets)} == {
            schedule.KILL,
            schedule.FREEZE,
        }
        assert schedule.faults(seed, 10, targets) == ()


def test_what_rises_grows_and_what_only_scatters_is_flat(seeds: tuple[int, ...]):
    for seed in seeds:
        draw = np.random.default_rng(seed)
        times = np.arange(0.0, 600.0, 2.0)
        noise = draw.uniform(-3, 3, len(times))
        steady = 200 + noise
        steady[:30] = np.linspace(0, 200, 30)  # caches fill
        steady[draw.choice(len(times), 20, replace=False)] = 2_000  # kills and compactions
        assert verdict("m", "MB", times, steady, least=8).word == FLAT
        leak = verdict("m", "MB", times, 200 + noise + times * 0.1, least=8)
        assert leak.word == GROWS
        assert leak.growth == pytest.approx(0.1 * leak.seconds, rel=0.2)
        assert verdict("m", "MB", times, 200 + noise - times * 0.1, least=8).word == FLAT
        assert verdict("m", "MB", times, np.where(times < 590, np.nan, 1.0), least=8).word == SHORT
        text = str(leak)
        assert re.search(r"m: grows: median [\d.]+ MB, \+[\d.]+ in 478 s > [\d.]+ \(scatter", text), text


def test_a_process_is_judged_over_its_longest_life():
    assert longest_life(np.array([7, 7, 0, 0, 0, 0, 8, 8, 8, 9])) == slice(6, 9)
    assert longest_life(np.array([0, 0])) == slice(0, 0)
    assert longest_life(np.array([], np.int64)) == slice(0, 0)
    figures = Figures()
    for at in range(4 * LEAST_SAMPLES):
        process = 1 if at < LEAST_SAMPLES else 2
        figures.processes["cdc"].append(process)
        figures.add(float(at), {(MEMORY, "cdc"): 100.0 * process + (at if process == 2 else 0)})
    (actual,) = figures.verdicts()
    assert (actual.word, actual.seconds) == (GROWS, 3 * LEAST_SAMPLES * 0.8 - 1)


def changed(rows: pa.Table, column: str, place: int, value: object) -> pa.Table:
    values = rows[column].to_pylist()
    values[place] = value
    at = rows.column_names.index(column)
    return rows.set_column(at, column, pa.array(values, rows.schema.field(column).type))


def test_a_reading_that_is_wrong_is_seen(seeds: tuple[int, ...]):
    for seed in seeds:
        draw = random.Random(seed)
        end = draw.randrange(beside.KEYS + 1, 4 * beside.KEYS)
        rows = beside.events(end - beside.KEYS, end).take(
            pa.array(draw.sample(range(beside.KEYS), beside.KEYS))
        )
        place = draw.randrange(beside.KEYS)
        older = rows["n"][place].as_py() - beside.KEYS
        assert beside.event_problem(rows) == ""
        assert beside.event_problem(beside.events(0, 3)) == ""
        assert beside.event_problem(rows.slice(0, 0)) == ""
        assert "rows of" in beside.event_problem(rows.slice(1))
        assert "rows of" in beside.event_problem(pa.concat_tables([rows, rows.slice(place, 1)]))
        if rows["n"][place].as_py() != end - 1:
            assert "older row" in beside.event_problem(changed(rows, "n", place, older))
        assert "notes" in beside.event_problem(changed(rows, "note", place, "event x"))
        accounts = pa.table({"id": range(ACCOUNTS), "cents": [CENTS] * ACCOUNTS})
        assert beside.account_problem("ods.accounts", accounts) == ""
        other = changed(accounts, "cents", place % ACCOUNTS, CENTS - 1)
        assert "expected" in beside.account_problem("ods.accounts", other)


def test_a_snapshot_that_expires_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lake = ts.connect(tmp_path)
    beside.create_events(lake)
    begun = iter([True])
    monkeypatch.setattr(beside, "event_problem", lambda rows: expire() if next(begun, False) else "")

    def expire() -> str:
        raise ts.SnapshotExpired("snapshot 1 expired while it was read; read again")

    beside.read(str(tmp_path), tmp_path, iter([None, None]))
    (line,) = (tmp_path / beside.READ).read_text().splitlines()
    assert json.loads(line)["wrong"] == []


class ToLake:
    """A cluster whose tables are those of a lake."""

    address = ""

    def __init__(self, lake: ts.Lake) -> None:
        self._lake = lake

    def append(self, orders: pa.Table) -> None:
        self._lake.table(shop_stream.ORDERS).write(orders)

    def upsert(self, customers: pa.Table) -> None:
        self._lake.table(shop_stream.CUSTOMERS).write(customers)

    def close(self) -> None: ...


def test_orders_that_are_missing_doubled_or_changed_are_counted(tmp_path: Path, seeds: tuple[int, ...]):
    for seed in seeds:
        lake = ts.connect(tmp_path / str(seed))
        lake.create_table(shop_stream.ORDERS, schema=shop_stream.ORDER)
        lake.create_table(shop_stream.CUSTOMERS, schema=shop_stream.CUSTOMER, primary_key=["customer"])
        shop = shop_stream.Shop(ToLake(lake))
        for rows in random.Random(seed).sample(range(1, 50), 2):
            shop.sell(rows)
        assert shop_differences(lake, shop.orders) == []
        missing = shop_differences(lake, shop.orders + 1)
        assert missing[0] == "shop.orders: 1 orders are not in the lake"
        assert "the customers are not those" in missing[1]
        strange = shop_differences(lake, shop.orders - 1)
        assert strange[0] == "shop.orders: 1 orders were never written"
        orders = lake.table(shop_stream.ORDERS)
        orders.write(orders.scan().to_arrow().slice(0, 1))
        assert shop_differences(lake, shop.orders) == ["shop.orders: 1 orders are there more than once"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--minutes", "0.1"], "too short"),
        (["--minutes", "1", "--rate", "0"], "more than 0 rows"),
        (["--minutes", "1", "--to", "/nowhere/at/all.html"], "there is no directory"),
    ],
)
def test_what_cannot_be_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str):
    assert verb.main(arguments) == ExitCode.REFUSED
    assert text in " ".join(capsys.readouterr().err.split())


@pytest.mark.large
def test_a_minute_with_kills_ends_equal(tmp_path: Path, seeds: tuple[int, ...]):
    counterparts.need("MariaDB")
    page = tmp_path / "soak.html"
    command = [sys.executable, "-m", "notebooks.cli", "soak", "--minutes", "1", "--rate", "60"]
    command += ["--seed", str(seeds[0]), "--to", str(page), "--cluster", "own"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    grows = re.search(rf"\b{GROWS}\b", done.stdout) is not None
    assert done.returncode == (ExitCode.GROWS if grows else ExitCode.DONE), done.stdout + done.stderr
    equal = [line for line in done.stdout.splitlines() if line.startswith("equal: ")]
    assert len(equal) == (6 if postgres.missing() else 9), done.stdout
    assert "WRONG" not in done.stdout
    assert re.search(r"^faults: .*\d × (kill|freeze)", done.stdout, re.MULTILINE)
    faults = [line for line in done.stderr.splitlines() if re.search(r" (kill|freeze) ", line)]
    assert len(faults) == len(schedule.faults(seeds[0], 60, [""] * 6))
    text = page.read_text()
    assert "Flat or not" in text
    assert "memory of cdc" in text
    assert 'src="http' not in text
