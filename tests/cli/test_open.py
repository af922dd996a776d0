"""`workbench open`: any table from the shell; names stay text, what cannot be opened is one line."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.cli import places
from tablestore.cli.door import Door
from tablestore.cli.open import command
from tablestore.cli.open.options import parsed

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ROWS = pa.table({"k": [1, 2], "v": ["a", "b"]}, schema=SCHEMA)
NASTY = 'it\'s "a" <b> ü'


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Two tables, under a path of spaces and quotes."""
    folder = tmp_path / NASTY
    lake = ts.connect(folder)
    for name in ("shop.orders", "shop.items"):
        lake.create_table(name, schema=SCHEMA, primary_key=["k"]).write(ROWS)
    return folder


def opened(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = command.main(parsed([str(argument) for argument in arguments], Door("./workbench")))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_text_describes_the_table_and_writes_nothing_to_it(warehouse: Path, capsys):
    table = warehouse / "shop.db" / "orders"
    before = sorted(path for path in table.rglob("*"))
    code, out, err = opened(capsys, table, "--text")
    assert (code, err) == (0, "")
    assert out.startswith("shop.orders  key (k) · deduplicate\n1 snapshot · 1 file")
    assert "next: nothing" in out
    assert sorted(path for path in table.rglob("*")) == before


def test_a_page_is_written_where_it_is_asked_for(warehouse: Path, tmp_path: Path, capsys):
    page = tmp_path / "it's a page.html"
    code, out, _ = opened(capsys, warehouse / "shop.db" / "orders", "--to", page)
    assert (code, out) == (0, f"{page}\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("inside", ["", "shop.db"])
def test_a_warehouse_or_a_database_lists_its_tables(warehouse: Path, inside: str, capsys):
    code, out, _ = opened(capsys, warehouse / inside)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].endswith("holds 2 tables; open one:")
    assert [line.rstrip("'").rpartition("/")[2] for line in lines[1:]] == ["items", "orders"]
    assert opened(capsys, warehouse / inside, "--text")[0] == 2


def test_what_cannot_be_opened_is_one_line(warehouse: Path, tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    wanted = {
        tmp_path / "gone": "there is nothing at",
        tmp_path / "empty": "no table at",
        tmp_path / "file": "is a file",
    }
    for path, words in wanted.items():
        code, out, err = opened(capsys, path, "--text")
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert words in err
    monkeypatch.setattr(places, "may_read", lambda folder: False)
    code, _, err = opened(capsys, warehouse / "shop.db" / "orders", "--text")
    assert code == 1
    assert "no permission to read" in err
    with pytest.raises(SystemExit, match="2"):
        opened(capsys, warehouse, "--option", "endpoint")
    assert "KEY=VALUE" in capsys.readouterr().err


def test_a_path_in_the_notebook_is_a_literal(warehouse: Path):
    table = ts.open(str(warehouse / "shop.db" / "orders"))
    for with_options in (False, True):
        first, second = command.cells_for(table, with_options=with_options)
        call = ast.parse(first).body[-1].value
        assert ast.unparse(call.func) == "ts.open"
        assert ast.literal_eval(call.args[0]) == str(warehouse / "shop.db" / "orders")
        assert second == "widgets.Workbench(table)"


def test_options_reach_the_kernel_but_no_notebook(warehouse: Path, monkeypatch, capsys):
    monkeypatch.setenv(command.OPTIONS, "")
    seen: dict[str, object] = {}

    def live(cells: list[str], **_: object) -> int:
        exec(cells[0], seen)
        seen["cells"] = cells
        return 0

    monkeypatch.setattr(command, "show_live", live)
    code, _, _ = opened(capsys, warehouse / "shop.db" / "orders", "--option", "s3.secret-key=hush")
    assert code == 0
    assert "hush" not in str(seen["cells"])
    assert seen["table"].location.endswith("orders")
    assert "hush" in os.environ[command.OPTIONS]


def test_without_a_page_or_text_a_live_notebook_is_shown(warehouse: Path, monkeypatch, capsys):
    shown: list[tuple[list[str], bool]] = []

    def live(cells: list[str], *, name: str, browser: bool) -> int:
        shown.append((cells, browser))
        return 0

    monkeypatch.setattr(command, "show_live", live)
    code, _, _ = opened(capsys, warehouse / "shop.db" / "orders", "--no-browser")
    assert code == 0
    assert shown[0][0][1] == "widgets.Workbench(table)"
    assert shown[0][1] is False
