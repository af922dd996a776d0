"""The log: real envelopes, honest positions, transactions, torn tails, reading from anywhere."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from datasets import cdc, tpch
from datasets.cdc import plan
from datasets.cdc.source import Position
from datasets.errors import DatasetError

BOTH = ("lineitem", "orders")
DEBEZIUM_SOURCE = [
    *("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "table"),
    *("server_id", "gtid", "file", "pos", "row", "thread", "query"),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> cdc.Source:
    home = tmp_path_factory.mktemp("stream")
    return cdc.generate(home, "0.02", pairs=3, seed=11, tables=BOTH, progress=False)


def lines_of(path: Path) -> list[tuple[int, dict]]:
    offset, out = 0, []
    for line in path.read_bytes().splitlines(keepends=True):
        out.append((offset, json.loads(line)))
        offset += len(line)
    return out


def test_events_have_debeziums_envelope(source: cdc.Source) -> None:
    events = [line for _, line in lines_of(source.log_files()[0]) if line["topic"] == "srv.tpch.lineitem"]
    created = next(e["value"] for e in events if e["value"]["op"] == "c")
    deleted = next(e for e in events if e["value"]["op"] == "d")
    assert list(created) == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    assert list(created["source"]) == DEBEZIUM_SOURCE
    assert created["before"] is None
    assert deleted["value"]["after"] is None
    row = deleted["value"]["before"]
    assert deleted["key"] == {name: row[name] for name in ("l_orderkey", "l_linenumber")}
    base = next(iter(tpch.read(source.chunks[0].path, batch_rows=1))).to_pylist()[0]
    days = {n: (base[n] - pa.scalar(0, pa.date32()).as_py()).days for n in base if n.endswith("date")}
    money = {name: str(base[name]) for name in ("l_quantity", "l_extendedprice", "l_discount", "l_tax")}
    assert row == {**base, **days, **money}


def test_positions_and_orders_in_events_are_true(source: cdc.Source) -> None:
    number = 0
    for path in source.log_files():
        begun, events, own = None, 0, Counter()
        for offset, line in lines_of(path):
            value = line["value"]
            if line["topic"] == "srv.transaction" and value["status"] == "BEGIN":
                begun, events, own, number = offset, 0, Counter(), number + 1
                assert value["id"] == f"0-1-{number}"
            elif line["topic"] == "srv.transaction":
                collections = {c["data_collection"]: c["event_count"] for c in value["data_collections"]}
                assert (value["event_count"], collections) == (
                    events,
                    {f"tpch.{t}": own[t] for t in ("orders", "lineitem")},
                )
                begun = None
            else:
                table = value["source"]["table"]
                at = value["source"]["file"], value["source"]["pos"], value["source"]["row"]
                assert at == (path.name, begun, events)
                events, own[table] = events + 1, own[table] + 1
                place = {"id": f"0-1-{number}", "total_order": events, "data_collection_order": own[table]}
                assert value["transaction"] == place
        assert begun is None


def test_an_order_and_its_lines_share_a_transaction_order_first(source: cdc.Source) -> None:
    seen: dict[int, str] = {}
    kinds = []
    for _, line in lines_of(source.log_files()[1]):
        if line["topic"] == "srv.transaction":
            continue
        key, id_ = line["key"], line["value"]["transaction"]["id"]
        if "o_orderkey" in key:
            seen[key["o_orderkey"]] = id_
        else:
            assert seen[key["l_orderkey"]] == id_
        kinds.append(line["value"]["op"])
    assert "".join(kinds).strip("c").strip("d") == ""
    assert len(set(seen.values())) > 4


@pytest.mark.parametrize("table", BOTH)
def test_the_log_holds_the_refresh_sets_in_order(source: cdc.Source, table: str) -> None:
    read = cdc.read_log(source, cdc.LOG_START, source.log_end(), table=table)
    sets = [tpch.refresh("0.02", n) for n in (1, 2, 3)]
    wanted = [getattr(s, name) for s in sets for name in (table, f"deleted_{table}")]
    schema = tpch.SCHEMAS[table]
    assert (
        read.select(schema.names)
        .cast(schema)
        .combine_chunks()
        .equals(pa.Table.from_batches(wanted).combine_chunks())
    )
    kinds = [[k] * len(batch) for batch, k in zip(wanted, [0, 3] * 3, strict=True)]
    assert read["_rowkind"].to_pylist() == [k for part in kinds for k in part]
    where = list(zip(read["_file"].to_pylist(), read["_offset"].to_pylist(), strict=True))
    assert where == sorted(set(where))


def test_offsets_of_rows_are_starts_of_their_lines(source: cdc.Source) -> None:
    path = source.log_files()[0]
    read = cdc.read_log(source, cdc.LOG_START, Position(path.name, path.stat().st_size), table="orders")
    at = {offset: line["key"].get("o_orderkey") for offset, line in lines_of(path)}
    assert [at[o] for o in read["_offset"].to_pylist()] == read["o_orderkey"].to_pylist()


def test_reading_may_stop_and_resume_at_any_split(source: cdc.Source) -> None:
    whole = cdc.read_log(source, cdc.LOG_START, source.log_end())
    for size in (1, 5_000, 40_000, 10**9):
        cuts = cdc.splits(source, cdc.LOG_START, source.log_end(), max_bytes=size)
        assert cuts == sorted(set(cuts))
        assert cuts[-1] == source.log_end()
        starts = [cdc.LOG_START, *cuts[:-1]]
        pieces = [cdc.read_log(source, a, b) for a, b in zip(starts, cuts, strict=True)]
        assert pa.concat_tables(pieces).combine_chunks().equals(whole.combine_chunks())
    assert cdc.read_log(source, cuts[-1], cuts[-1]).num_rows == 0


def test_splits_end_transactions_and_keep_to_the_size(source: cdc.Source) -> None:
    ends = {(path.name, offset) for path in source.log_files() for offset in transaction_ends(path)}
    cuts = cdc.splits(source, cdc.LOG_START, source.log_end(), max_bytes=30_000)
    assert set(cuts) <= ends
    assert set(cdc.splits(source, cdc.LOG_START, source.log_end(), max_bytes=1)) == ends
    own = [cut.offset for cut in cuts if cut.file == "00002.jsonl"]
    possible = transaction_ends(source.log_files()[1])
    for begin, end in pairwise([0, *own]):
        assert end == max(p for p in possible if p <= begin + 30_000)


def transaction_ends(path: Path) -> list[int]:
    lines = lines_of(path)
    following = [offset for offset, _ in lines[1:]] + [path.stat().st_size]
    return [
        end for end, (_, line) in zip(following, lines, strict=True) if line["value"].get("status") == "END"
    ]


def test_end_of_the_log_is_the_last_complete_transaction_for_every_torn_tail(
    source: cdc.Source, tmp_path: Path
) -> None:
    whole = source.log_files()[0].read_bytes()
    ends = [0, *transaction_ends(source.log_files()[0])]
    (tmp_path / "log").mkdir()
    torn = replace(source, directory=tmp_path)
    near = [end + step for end in ends[:4] for step in (-1, 0, 1, 40, 150)]
    for length in sorted({n for n in near if n >= 0} | set(range(0, len(whole), 997))):
        (tmp_path / "log" / "00001.jsonl").write_bytes(whole[:length])
        complete = max(end for end in ends if end <= length)
        assert torn.log_end() == Position("00001.jsonl", complete)
        rows = cdc.read_log(torn, cdc.LOG_START, torn.log_end()) if length % 5 == 0 else None
        assert rows is None or rows.num_rows == whole[:complete].count(b'"topic":"srv.tpch.lineitem"')
    assert not torn.finished()


def test_end_of_the_log_looks_behind_a_file_that_has_only_begun(source: cdc.Source, tmp_path: Path) -> None:
    first, second = source.log_files()[:2]
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / first.name).write_bytes(first.read_bytes())
    (tmp_path / "log" / second.name).write_bytes(b"")
    torn = replace(source, directory=tmp_path)
    assert torn.log_end() == Position(first.name, first.stat().st_size)
    (tmp_path / "log" / second.name).write_bytes(second.read_bytes()[:100])
    assert torn.log_end() == Position(first.name, first.stat().st_size)


def test_a_range_that_ends_in_a_line_is_refused(source: cdc.Source) -> None:
    with pytest.raises(DatasetError, match="torn"):
        cdc.read_log(source, cdc.LOG_START, Position("00001.jsonl", 1000))
    with pytest.raises(DatasetError, match="runs backwards"):
        cdc.read_log(source, source.log_end(), cdc.LOG_START)
    with pytest.raises(DatasetError, match=r"has \d+ bytes, asked for"):
        cdc.read_log(source, cdc.LOG_START, Position("00003.jsonl", 10**9))
    with pytest.raises(DatasetError, match="no table 'part'"):
        cdc.read_log(source, cdc.LOG_START, source.log_end(), table="part")


def test_an_update_becomes_two_rows(source: cdc.Source) -> None:
    lines = [line for _, line in lines_of(source.log_files()[0]) if line["topic"] == "srv.tpch.orders"][:3]
    old = lines[1]["value"]["after"]
    lines[1]["value"].update(op="u", before=old, after={**old, "o_orderstatus": "X", "o_comment": None})
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    read = cdc.decode(text, "orders", file="f", offset=100)
    assert read["_rowkind"].to_pylist() == [0, 1, 2, 0]
    assert read["o_orderstatus"].to_pylist()[1:3] == [old["o_orderstatus"], "X"]
    assert read["o_comment"].to_pylist()[2] is None
    offsets = read["_offset"].to_pylist()
    assert offsets[0] == 100
    assert offsets[1] == offsets[2] == 100 + text.index(b"\n") + 1


def test_an_unknown_operation_is_named(source: cdc.Source) -> None:
    line = next(line for _, line in lines_of(source.log_files()[0]) if line["topic"] == "srv.tpch.orders")
    line["value"]["op"] = "t"
    with pytest.raises(DatasetError, match="op 't'"):
        cdc.decode(json.dumps(line).encode() + b"\n", "orders", file="f", offset=0)


def test_rows_do_not_depend_on_the_seed_but_cuts_do(source: cdc.Source, tmp_path: Path) -> None:
    other = cdc.generate(tmp_path, "0.02", pairs=3, seed=12, tables=BOTH, progress=False)
    rows = [cdc.read_log(s, cdc.LOG_START, s.log_end()).drop(["_offset"]) for s in (source, other)]
    assert rows[0].combine_chunks().equals(rows[1].combine_chunks())
    assert transaction_ends(source.log_files()[0]) != transaction_ends(other.log_files()[0])


def test_plan_covers_every_order_once_and_time_never_runs_back(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        number, moment = 1, 0
        for pair, half in [(p, h) for p in (1, 2, 3) for h in (0, 1)]:
            cuts = plan.transactions(tpch.Scale.of(1), "dbgen", seed, pair=pair, half=half)
            assert cuts.first_number == number
            assert cuts.starts.tolist() == [0, *cuts.ends[:-1].tolist()]
            assert cuts.ends[-1] == 1500
            assert (np.diff(cuts.ends) > 0).all()
            assert cuts.ts_ms[0] > moment
            assert (np.diff(cuts.ts_ms) >= 0).all()
            number, moment = number + len(cuts), int(cuts.ts_ms[-1])


def test_lineitem_alone_has_no_order_events(tmp_path: Path) -> None:
    alone = cdc.generate(tmp_path, "0.01", pairs=1, progress=False)
    topics = Counter(line["topic"] for _, line in lines_of(alone.log_files()[0]))
    assert set(topics) == {"srv.transaction", "srv.tpch.lineitem"}
    assert topics["srv.tpch.lineitem"] == 37 + 38
    assert pc.sum(pa.array([c.rows for c in alone.chunks])).as_py() == 60_175
