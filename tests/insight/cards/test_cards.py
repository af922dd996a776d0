"""Cards: what objects show of themselves in a notebook; bounded, escaped, and never in the way."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core import rich
from tablestore.core.errors import MissingPackage
from tablestore.insight import cards
from tablestore.insight.cards import html, scan, table
from tablestore.insight.check.findings import Violation, Violations
from tablestore.insight.doctor.finding import Diagnosis, Finding, MendingCall
from tablestore.meta import manifest_cache
from tests.faults import FaultyIO
from tests.tables import KEYED

HOSTILE = '<img src=x onerror="alert(1)"></style><script>alert(1)</script>\'&$\u202e\x1b\n'


def shown(value: Any) -> str:
    """The card of a value; it has one."""
    page = value._repr_html_()
    assert page is not None
    return page


def words(markup: str) -> str:
    """The text of a card without its style."""
    actual = re.sub(r"<style>.*?</style>", "", markup)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", actual)).replace("&nbsp;", " ").strip()


class Elements(HTMLParser):
    """Elements and attributes of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.attributes, self.open = set[str](), set[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("rect", "line", "path", "circle", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line", "path", "circle"):
            assert self.open.pop() == tag


OURS = set(
    "div span b i code style table thead tbody tr th td svg line rect path circle details summary br".split()
)


def require_ours(markup: str) -> None:
    """Only elements and attributes of ours, each closed; no scripts."""
    actual = Elements()
    actual.feed(markup)
    assert actual.open == []
    assert actual.seen <= OURS
    assert not {a for a in actual.attributes if a.startswith("on") or a in ("href", "src")}


@pytest.fixture
def orders(tmp_path: Path) -> ts.Table:
    columns = {"order_id": ts.BIGINT, "status": ts.STRING}
    table = ts.connect(tmp_path).create_table(
        "shop.orders", schema=columns, primary_key=["order_id"], options={"bucket": 2, "write-only": True}
    )
    for number in range(6):
        table.write([{"order_id": n, "status": f"s{number}"} for n in range(number, number + 20)])
    return table


def test_a_table_shows_its_commits_its_size_and_its_health(orders: ts.Table) -> None:
    actual = words(shown(orders))
    assert actual.startswith("shop.orders key (order_id) · deduplicate · 2 buckets ▲ 2 of 2 buckets wait")
    assert orders.inspect.health().verdict in actual
    assert "12 files" in actual
    assert "120 rows stored" in actual
    assert "6 commits: 6 APPEND" in actual
    assert f"widgets.Workbench(ts.open('{orders.location}'))" in shown(orders).replace("&#x27;", "'")
    assert shown(orders).count("<rect") == 6
    then = words(shown(orders.at(snapshot=2)))
    assert "as it was at snapshot 2" in then
    assert "4 files" in then
    assert "2 commits: 2 APPEND" in then


def test_a_scan_shows_a_few_rows_and_how_many_files_it_reads(orders: ts.Table) -> None:
    actual = words(shown(orders.scan()))
    assert "reads 12 of 12 files" in actual
    assert actual.count(" s5 ") + actual.count(" s0 ") >= 1
    assert "first 5 rows" in actual
    card_words = words(shown(orders.scan(["status"], where="order_id = 3").head(1)))
    assert re.search(r"reads \d of 12 files", card_words)
    assert "status s3 first 1 row" in card_words
    assert "no rows" in words(shown(orders.scan(where="order_id > 900")))
    assert "reads 0 of 12 files" in words(shown(orders.scan(where="order_id > 900")))


def test_a_preview_with_a_condition_stops_at_its_bounds(
    orders: ts.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MOST_BYTES", 10)
    assert "were not read for a preview" in words(shown(orders.scan(where="status <> 'x'")))
    assert "first 5 rows" in words(shown(orders.scan())), "a first window is always small"


def test_plans_snapshots_and_results_show_themselves(orders: ts.Table) -> None:
    plan = orders.scan(where="order_id = 3").plan()
    snapshot = orders.scan().snapshot
    live = orders.with_options({"write-only": False})
    actual = {
        "plan": (plan, "bucket-"),
        "explain": (orders.scan(where="order_id = 3").explain(), "key range"),
        "snapshot": (snapshot, "Snapshot 6"),
        "dry run": (live.compact(dry_run=True), "2 of 2 buckets with work"),
        "what if": (orders.what_if({"num-sorted-run.compaction-trigger": 3}), "write amplification"),
        "health": (orders.inspect.health(), "2 of 2 buckets wait for compaction"),
        "check": (orders.check(), "sound: every invariant holds"),
        "doctor": (orders.inspect.doctor(), "1 finding: 1 slow"),
        "readers": (orders.inspect.readers(), "unmerged keys"),
        "advice": (ts.advise_buckets(orders), "1 bucket everything fits in one"),
        "compaction": (live.compact(full=True), "snapshot 7"),
    }
    for value, text in actual.values():
        require_ours(shown(value))
        assert text in words(shown(value))


def test_a_check_gives_a_list_that_shows_itself(orders: ts.Table) -> None:
    problems = orders.check()
    assert problems == []
    assert isinstance(problems, list)
    assert not problems
    assert problems.text == "sound: every invariant holds"
    assert repr(problems) == "[]"
    Path(orders.location, "snapshot", "snapshot-3").write_text("{}")
    broken = orders.check()
    assert broken
    assert all(isinstance(v, Violation) for v in broken)
    assert str(broken[0]) in broken.text
    assert f"{len(broken)} violation" in words(shown(broken))
    many = Violations(Violation("I4", f"bucket-{n}", "runs overlap") for n in range(30))
    assert "30 violations of I4" in words(shown(many))
    assert "10 more" in words(shown(many))


def test_a_lake_shows_its_tables_and_a_broken_one_as_a_line(
    orders: ts.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = ts.connect(tmp_path)
    for number in range(3):
        warehouse.create_table(f"shop.t{number}", schema={"k": ts.INT})
    Path(warehouse.table("shop.t1").location, "schema", "schema-0").write_text("no json")
    actual = words(shown(warehouse))
    assert "4 tables" in actual
    assert "#6" in actual
    assert "120" in actual
    assert "shop.t1 ✕ Corrupt" in actual
    assert "shop.t2 append table" in actual
    monkeypatch.setattr(table, "MOST_TABLES", 1)
    assert "3 more tables" in words(shown(warehouse))
    monkeypatch.setattr(table, "MOST_SECONDS", -1.0)
    assert "4 more tables" in words(shown(warehouse))


def test_all_that_others_choose_is_text(tmp_path: Path) -> None:
    schema = {"k": ts.STRING, HOSTILE: ts.STRING}
    table = ts.connect(tmp_path).create_table(
        "d.t", schema=schema, primary_key=["k"], comment=HOSTILE, comments={HOSTILE: HOSTILE}
    )
    with table.writer(user=HOSTILE) as writer:
        writer.write([{"k": HOSTILE, HOSTILE: HOSTILE}])
    table.name = HOSTILE
    values = (table, table.scan(where=ts.col("k") == HOSTILE), table.scan().snapshot, table.scan().plan())
    call = (MendingCall("look", (HOSTILE,)),)
    results = (
        table.scan(where=ts.col("k") == HOSTILE).explain(),
        Violations([Violation("I1", HOSTILE, HOSTILE)]),
        Diagnosis(
            HOSTILE,
            1,
            (Finding(HOSTILE, "risk", HOSTILE, HOSTILE, call, {HOSTILE: HOSTILE}, asks=HOSTILE),),
            (),
        ),
    )
    for value in (*values, *results):
        markup = shown(value)
        require_ours(markup)
        assert "onerror=&quot;alert(1)&quot;" in markup or "&lt;img" in markup or value is values[3]
        assert "\u202e" not in markup
        assert "\x1b" not in markup


def test_cards_read_metadata_only_and_few_files(tmp_path: Path) -> None:
    io = FaultyIO()
    table = KEYED.create(tmp_path, {"bucket": 4}, io=io)
    for number in range(5):
        table.write(pa.table({"k": pa.array(range(number, 40), pa.int64()), "v": ["x"] * (40 - number)}))
    io.log.clear()
    shown(table)
    assert not [entry for entry in io.log if "/bucket-" in entry]
    io.log.clear()
    shown(table.scan())
    opened = {entry.split()[-1].rpartition("/")[0] for entry in io.log if "/bucket-" in entry}
    assert len(opened) == 1, "a preview reads the first split alone"


def test_what_cannot_be_read_is_said_or_left_to_the_text(orders: ts.Table) -> None:
    for path in Path(orders.location, "manifest").iterdir():
        path.write_bytes(b"no manifest")
    manifest_cache.LOCAL.clear()  # which has what this process wrote
    assert "✕ its manifests cannot be read" in words(shown(orders))
    assert orders.scan()._repr_html_() is None
    assert "Scan(" in repr(orders.scan())


def test_no_card_is_made_of_what_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rich.card("nothing of the kind") is None
    monkeypatch.setattr(rich, "_makers", [])
    assert rich.card("violations", Violations()) is None

    def refuses(kind: str, *what: object) -> str:
        raise MissingPackage("cards", "tablestore.insight is missing")

    rich.provide(refuses)
    assert rich.card("violations", Violations()) is None


def test_a_rows_card_cuts_long_text_and_colours_have_both_themes() -> None:
    assert len(html.esc("x" * 10_000)) == html.LONGEST
    assert html.esc("a\nb\tc$") == "a\\nb\\tc&#36;"
    assert html.LIGHT.keys() == html.DARK.keys()
    assert {colour for _, *both in html.CHIPS.values() for colour in both} <= html.LIGHT.keys()
    assert set(cards.CARDS) >= {"lake", "table", "scan", "plan", "snapshot", "what-if", "violations"}


def test_a_scan_shows_its_columns_at_a_glance(orders: ts.Table) -> None:
    actual = words(shown(orders.scan()))
    assert "order_id BIGINT NOT NULL 0 ≤ 25 0 24" in actual
    assert "status STRING 0 ≤ 120 s0 s5" in actual
    assert "columns of 120 stored rows" in actual
    require_ours(shown(orders.scan()))
    orders.analyze()
    counted = words(shown(orders.scan()))
    assert "order_id BIGINT NOT NULL 0 ≈ 25 0 24" in counted
    assert "status STRING 0 ≈ 6 s0 s5" in counted


def test_many_files_are_previewed_without_their_statistics(
    orders: ts.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MOST_STATISTICS", 11)
    assert "stored rows, by" not in words(shown(orders.scan()))
