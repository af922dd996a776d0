"""`%sql` and `%%sql`: in a shell of IPython, without a browser."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import tablestore as ts
from tablestore.sql import Result, magics, spark_engine

pytestmark = pytest.mark.filterwarnings("ignore::IPython.core.completer.ProvisionalCompleterWarning")


@pytest.fixture
def shell(lake: ts.Lake) -> Any:
    """A shell with the extension, the lake in the variable `lake` and chosen."""
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "tablestore")
    shell.user_ns["lake"] = lake
    shell.run_line_magic("lake", "lake")
    return shell


def run(shell: Any, cell: str) -> Any:
    """What a cell gives; what it raises."""
    done = shell.run_cell(cell)
    done.raise_error()
    return done.result


def test_a_line_and_a_cell_give_a_result(shell: Any) -> None:
    with capture_output():
        assert run(shell, "%sql SELECT count(*) AS n FROM shop.orders").to_arrow().to_pylist() == [{"n": 3}]
        assert len(run(shell, "%%sql\nUSE shop;\nSELECT *\nFROM orders")) == 3
        assert len(run(shell, "rows = %sql SELECT * FROM orders$snapshots\nrows")) == 2


def test_the_engine_is_that_of_the_line_and_of_those_after_it(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_spark(scope: Any, tree: Any, text: str) -> pa.RecordBatchReader:
        return pa.table({"n": [-1]}).to_reader()

    monkeypatch.setattr(spark_engine, "run_query", by_spark)
    count = "SELECT count(*) AS n FROM shop.orders"
    lines = [f"--engine spark {count}", count, f"--engine embedded {count}", count]
    with capture_output():
        counts = [run(shell, f"%sql {line}").to_arrow()["n"].to_pylist() for line in lines]
        assert run(shell, "%%sql --lake lake --engine SPARK\n" + count).to_arrow()["n"].to_pylist() == [-1]
    assert counts == [[-1], [-1], [3], [3]]
    with capture_output(), pytest.raises(ts.InvalidOption, match="embedded or spark, not 'flink'"):
        run(shell, "%sql --engine flink SELECT 1")
    with (
        capture_output(),
        pytest.raises(ts.InvalidRequest, match="--engine is followed by embedded or spark"),
    ):
        run(shell, "%sql --engine")


def test_results_before_the_last_are_shown_too(shell: Any) -> None:
    with capture_output() as shown:
        run(shell, "%%sql\nSELECT 11 AS first; SELECT 22 AS second;")
    assert shown.stdout.index("first\n") < shown.stdout.index("second\n")
    assert "11\n1 row · " in shown.stdout


def test_a_result_is_kept_under_a_name(shell: Any) -> None:
    with capture_output() as shown:
        assert run(shell, "%%sql found <<\nSELECT * FROM shop.orders") is None
    assert shown.stdout.startswith("found: 3 rows · ")
    assert isinstance(shell.user_ns["found"], Result)
    assert len(shell.user_ns["found"].to_arrow()) == 3


def test_variables_are_parameters_where_a_colon_asks_for_them(shell: Any) -> None:
    shell.user_ns |= {"wanted": np.int64(2), "name": "x' OR 'a' = 'a", "table": "no parameter"}
    query = "%sql SELECT customer, ':wanted {name}' AS t FROM shop.orders WHERE order_id = :wanted OR customer = :name"  # noqa: E501
    with capture_output():
        assert run(shell, query).to_arrow().to_pylist() == [{"customer": "bob", "t": ":wanted {name}"}]
    with capture_output(), pytest.raises(ts.InvalidRequest, match="parameter :nope has no value"):
        run(shell, "%sql SELECT :nope")


def test_a_lake_is_a_path_or_a_variable(shell: Any, tmp_path: Any) -> None:
    with capture_output():
        run(shell, f"%%sql --lake '{tmp_path}/other lake'\nCREATE DATABASE stock")
        names = run(shell, "%sql SHOW DATABASES").to_arrow()[0].to_pylist()
        assert names == ["stock"]
        assert run(shell, "%sql --lake lake SHOW DATABASES").to_arrow()[0].to_pylist() == ["shop"]
        assert "catalog lake" in repr(run(shell, "%lake"))
        shell.user_ns["mine"] = ts.sql_session(shell.user_ns["lake"])
        run(shell, "%lake mine\n%sql USE shop")
    assert shell.user_ns["mine"].database == "shop"


def test_a_path_is_opened_as_a_variable(shell: Any, tmp_path: Any, lake: ts.Lake) -> None:
    opened = run(shell, f"%lake {lake.warehouse} as mine")
    assert isinstance(opened, ts.Lake)
    assert opened is shell.user_ns["mine"]
    assert shell.user_ns["lake"] is lake
    assert "shop.orders" in opened._repr_html_()
    assert run(shell, f"%lake '{tmp_path}/a new one'") is shell.user_ns["lake"]
    assert shell.user_ns["lake"].warehouse.endswith("a new one")
    shell.user_ns["lake"] = 7
    for line, problem in ((lake.warehouse, "holds a int: .* as NAME"), ("my lake", "'lake' is not expected")):
        with pytest.raises(ts.InvalidRequest, match=problem):
            run(shell, f"%lake {line}")
    assert shell.user_ns["lake"] == 7


def test_an_error_says_where_in_the_text_and_shows_none_of_our_code(shell: Any) -> None:
    with capture_output() as shown, pytest.raises(ts.NotFound):
        run(shell, "%%sql\nSELECT *\nFROM shop.ordres")
    text = shown.stdout + shown.stderr
    assert "NotFound: line 2, column 6: no table 'shop.ordres'; did you mean shop.orders" in text
    assert "magics.py" not in text
    with capture_output(), pytest.raises(ts.InvalidRequest, match="is followed by a new line, not by 'x'"):
        run(shell, "%%sql x\nSELECT 1")
    with capture_output(), pytest.raises(ts.InvalidRequest, match="there is no statement"):
        run(shell, "%sql")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%%sql\nSELECT *\nFROM shop.or|", ["orders"]),
        ("%%sql\nSELECT o.cus| FROM shop.orders AS o", ["customer"]),
        ("%%sql found <<\nSELECT 'a;b' FROM sh|", ["shop"]),
        ("%sql SELECT * FROM shop.ev|", ["events"]),
        ("rows = %sql SELECT am| FROM shop.orders\nrows.to_pandas()", ["amount"]),
        ("%%sql\nALTER TABLE shop.orders SET ('merge-en|", ["merge-engine"]),
    ],
)
def test_names_are_completed_as_somebody_types(shell: Any, cell: str, expected: list[str]) -> None:
    at = cell.index("|")
    completions = list(shell.Completer.completions(cell.replace("|", ""), at))
    assert [completion.text.rpartition(".")[2].rpartition("'")[2] for completion in completions][
        : len(expected)
    ] == expected
    text = cell.replace("|", "")
    whole = text[: completions[0].start] + completions[0].text + text[completions[0].end :]
    assert whole == cell[:at].rstrip("abcdefghijklmnopqrstuvwxyz-") + expected[0] + cell[at + 1 :]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%cockpit shop.or|", ["%cockpit shop.orders"]),
        ("%cockpit sh|", ["%cockpit shop"]),
        ("%cockpit my_o|", ["%cockpit my_orders"]),
        ("%lake la|", ["%lake lake"]),
        ("orders = lake.table('shop.ev|", ["orders = lake.table('shop.events"]),
        ('lake.table("shop|', ['lake.table("shop.events', 'lake.table("shop.orders']),
        ("my_orders.table('shop|", []),
    ],
)
def test_tables_and_lakes_are_completed_where_they_are_named(
    shell: Any, lake: ts.Lake, cell: str, expected: list[str]
) -> None:
    shell.user_ns["my_orders"] = lake.table("shop.orders")
    text = cell.replace("|", "")
    whole = [
        text[: completion.start] + completion.text
        for completion in shell.Completer.completions(text, len(text))
    ]
    assert whole[: len(expected)] == expected
    assert not [
        text_completed
        for text_completed in whole[len(expected) :]
        if "shop" in text_completed or "orders" in text_completed[len(text) :]
    ]


def test_a_lake_that_cannot_be_listed_completes_nothing(shell: Any, tmp_path: Any) -> None:
    shell.user_ns["gone"] = ts.connect(tmp_path / "gone")
    assert not [
        completion
        for completion in shell.Completer.completions("gone.table('sh", 14)
        if "shop" in completion.text
    ]


def test_python_is_completed_as_ever(shell: Any) -> None:
    shell.user_ns["wanted_value"] = 1
    assert "wanted_value" in [completion.text for completion in shell.Completer.completions("wanted_v", 8)]


def test_loading_twice_changes_nothing(shell: Any) -> None:
    before = len(shell.Completer.custom_matchers)
    ts.load_ipython_extension(shell)
    assert len(shell.Completer.custom_matchers) == before


def test_a_stream_is_a_table_that_moves_until_the_statement_comes_again(shell: Any) -> None:
    sql = "%%sql\nSET 'execution.runtime-mode' = 'streaming';\nSELECT order_id FROM shop.orders"
    with capture_output() as shown:
        first = run(shell, sql)
        assert first.running
        assert first.model.counts == {"+I": 3}
        again = run(shell, sql)
    assert "3 changes · +I 3" in shown.stdout
    first.wait(240)
    assert first.model.state == "stopped"
    again.stop().wait(240)
    with capture_output():
        ended = run(shell, "%sql SELECT x FROM (VALUES (1), (2)) AS t (x)")
        kept = run(shell, "%%sql rows <<\nSELECT * FROM shop.orders")
    assert ended.wait(240).data()["x"].to_pylist() == [1, 2]
    assert kept is None
    assert shell.user_ns["rows"].endless


def test_a_long_query_has_a_progress_bar_until_its_rows_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[dict[str, str], dict[str, Any]]] = []
    pub = SimpleNamespace(publish=lambda data, **options: shown.append((data, options)))
    now = [0.0]
    monkeypatch.setattr(magics, "SYSTEM", SimpleNamespace(monotonic=lambda: now[0], uuid=lambda: "u"))
    bar = magics.CellProgress(SimpleNamespace(kernel=object(), display_pub=pub))
    for now[0], percent in ((0.5, 10.0), (1.5, 40.0), (1.6, 41.0), (2.0, -1.0)):
        bar.show(percent)
    bar.clear()
    bar.clear()
    assert [data["text/plain"] for data, _ in shown] == ["40 % · 2 s", "2 s", ""]
    assert [options["update"] for _, options in shown] == [False, True, True]
    now[0] = 2.5
    bar.show(50.0)  # the next query has a second of its own
    plain = magics.CellProgress(SimpleNamespace(display_pub=pub))
    now[0] = 9.0
    plain.show(50.0)
    assert len(shown) == 3


def test_a_result_says_how_to_open_the_tables_it_is_of(shell: Any) -> None:
    with capture_output():
        cell = run(shell, "%sql SELECT count(*) FROM shop.orders AS o JOIN shop.orders AS p USING (order_id)")
        run(shell, "%sql CREATE TEMPORARY VIEW seen AS SELECT * FROM shop.orders")
        none = run(shell, "%sql SELECT * FROM shop.orders$snapshots, seen")
    assert cell._repr_html_().count("%cockpit shop.orders") == 1
    assert "%cockpit" not in none._repr_html_()
    assert "%cockpit" not in cell.text(), "a terminal has none"


def test_the_cockpit_of_a_table_is_opened_by_its_name(shell: Any) -> None:
    run(shell, "%sql USE shop")
    bench = run(shell, "%cockpit orders")
    assert type(bench).__name__ == "Workbench"
    assert "shop.orders" in str(bench)
    shell.user_ns["mine"] = shell.user_ns["lake"].table("shop.orders")
    assert "shop.orders" in str(run(shell, "%cockpit mine"))
    tables = run(shell, "%cockpit lake")
    assert type(tables).__name__ == "LakeHealth"
    assert "shop.orders" in str(tables.wait(120))
    for line, problem in (
        ("", "followed by"),
        ("ordrs", "orders"),
        ("orders WHERE 1", "not expected|expected"),
    ):
        with pytest.raises(ts.TablestoreError, match=problem):
            run(shell, f"%cockpit {line}")


def test_a_cell_is_a_chart_when_asked(shell: Any) -> None:
    with capture_output() as shown:
        figure = run(shell, "%%sql --plot --x order_id --kind bars\nSELECT * FROM shop.orders")
        assert list(figure.data[0].y) == [1.0, 1.0, 1.0]
        assert (
            run(shell, "%sql --plot SELECT order_id, order_id + 1 AS n FROM shop.orders").data[0].type
            == "scatter"
        )
        assert run(shell, "%%sql drawn << --plot\nSELECT * FROM shop.orders") is None
    assert "drawn: a chart of SELECT" in shown.stdout
    assert shell.user_ns["drawn"].data


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%sql --x order_id SELECT * FROM shop.orders", "--x say what --plot shows: add --plot"),
        ("%sql --plot --kind", "--kind is followed by bars, lines, histogram or points"),
        ("%sql --plot --kind pie SELECT * FROM shop.orders", "use one of bars, lines, histogram, points"),
    ],
)
def test_what_a_chart_cannot_show_is_refused(shell: Any, line: str, said: str) -> None:
    with pytest.raises(ts.InvalidRequest, match=said):
        run(shell, line)
