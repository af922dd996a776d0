"""Flight SQL, by the ADBC driver that Arrow makes: rows, changes, listings, and who is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

import tablestore as ts
from tablestore.sql.flight.listings import packed, unpacked
from tablestore.sql.flight.server import FlightSqlServer
from tests.peers import require
from tests.peers.cells import cells, in_order
from tests.read import golden

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lake(tmp_path: Path) -> ts.Lake:
    lake = ts.connect(tmp_path / "lake")
    orders = lake.create_table("shop.orders", schema={"k": ts.BIGINT, "v": ts.STRING}, primary_key=["k"])
    orders.write([{"k": k, "v": f"row {k}"} for k in range(1_000)])
    orders.write([{"k": k, "v": "new"} for k in range(10)])
    lake.create_table("shop.events", schema={"at": ts.TIMESTAMP(3), "note": ts.STRING})
    return lake


@pytest.fixture
def server(lake: ts.Lake) -> Iterator[FlightSqlServer]:
    with FlightSqlServer(lake) as running:
        yield running


def connected(server: FlightSqlServer, **how: str) -> Any:
    """A connection of ADBC's driver."""
    require(_driver(), "needs adbc-driver-flightsql")
    import adbc_driver_flightsql.dbapi as driver

    how = how or {"adbc.flight.sql.authorization_header": f"Bearer {server.token}"}
    return driver.connect(server.address, db_kwargs=how, autocommit=True)


def commits(lake: ts.Lake) -> int:
    """How many writes the table has had; compactions are not counted."""
    kinds = lake.table("shop.orders").inspect.snapshots()["commit_kind"].to_pylist()
    return kinds.count("APPEND")


def _driver() -> object:
    try:
        import adbc_driver_flightsql
    except ModuleNotFoundError:
        return None
    return adbc_driver_flightsql


def test_a_client_reads_merged_rows(server: FlightSqlServer):
    with connected(server) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*), sum(k) FROM shop.orders WHERE v = 'new'")
        assert cursor.fetchall() == [(10, 45)]
        cursor.execute("SELECT v FROM shop.orders WHERE k IN (?, ?) ORDER BY k", (5, 500))
        assert cursor.fetchall() == [("new",), ("row 500",)]
        cursor.execute("SHOW TABLES IN shop")
        assert cursor.fetchall() == [("events",), ("orders",)]
        cursor.execute("SELECT * FROM shop.events")
        assert cursor.fetch_arrow_table().schema.names == ["at", "note"]


def test_a_password_is_the_token_too(server: FlightSqlServer):
    sign_in = {"username": "anybody", "password": server.token}
    with connected(server, **sign_in) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize("how", ["none", "bearer", "basic"])
def test_nobody_gets_in_without_the_token(server: FlightSqlServer, how: str):
    wrong = {
        "none": {"adbc.flight.sql.rpc.call_header.x-nothing": "1"},
        "bearer": {"adbc.flight.sql.authorization_header": f"Bearer {server.token}x"},
        "basic": {"username": "me", "password": "guess"},
    }[how]

    def ask() -> None:
        with connected(server, **wrong) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    with pytest.raises(Exception, match="the token of this server is missing"):
        ask()


def test_a_server_reads_only_unless_it_may_write(lake: ts.Lake, server: FlightSqlServer):
    before = commits(lake)
    with connected(server) as connection, connection.cursor() as cursor:
        for text in (
            "INSERT INTO shop.orders VALUES (1, 'x')",
            "DROP TABLE shop.orders",
            "SET 'execution.engine' = 'spark'",
            "SELECT 1; DROP TABLE shop.orders",
            "CALL sys.compact('shop.orders')",
        ):
            with pytest.raises(Exception, match=r"changes something|one statement is expected"):
                cursor.execute(text)
    assert commits(lake) == before


def test_changes_are_carried_out_once(lake: ts.Lake):
    writing = FlightSqlServer(lake, writes=True)
    with writing as server, connected(server) as connection, connection.cursor() as cursor:
        before = commits(lake)
        cursor.execute("INSERT INTO shop.orders VALUES (5000, 'inserted')")
        assert cursor.fetchall() == [(1,)]
        cursor.executemany("INSERT INTO shop.orders VALUES (?, ?)", [(6_000, "a"), (6_001, "b")])
        assert cursor.rowcount == 2
        assert commits(lake) == before + 3
        with pytest.raises(Exception, match=r"(?s)'k' is NOT NULL.*carried out for 1 row of values before"):
            cursor.executemany("INSERT INTO shop.orders VALUES (?, ?)", [(4_000, "c"), (None, "d")])
        cursor.execute("SELECT v FROM shop.orders WHERE k >= 5000 ORDER BY k")
        assert cursor.fetchall() == [("inserted",), ("a",), ("b",)]
        rows = connection.adbc_get_info()
    assert rows["vendor_name"] == "tablestore"
    assert rows["vendor_version"] == ts.__version__


def test_a_statement_is_fetched_once_and_at_its_snapshot(lake: ts.Lake, server: FlightSqlServer):
    client = flight.FlightClient(server.address)
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {server.token}".encode())])
    command = packed("CommandStatementQuery", query="SELECT count(*) AS n FROM shop.orders")
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command), options)
    lake.table("shop.orders").write([{"k": 9_999, "v": "later"}])
    ticket = info.endpoints[0].ticket
    assert unpacked(ticket.ticket)[0] == "TicketStatementQuery"
    assert client.do_get(ticket, options).read_all().to_pylist() == [{"n": 1_000}]
    with pytest.raises(flight.FlightServerError, match="each is fetched once"):
        client.do_get(ticket, options).read_all()
    client.close()


@pytest.mark.parametrize("command", [b"", b"\xff\xff", b"\n\x05hello", packed("CommandGetCatalogs")[:-2]])
def test_bytes_that_are_no_command_are_refused(server: FlightSqlServer, command: bytes):
    client = flight.FlightClient(server.address)
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {server.token}".encode())])
    with pytest.raises(flight.FlightError, match="Flight SQL"):
        client.get_flight_info(flight.FlightDescriptor.for_command(command), options)
    client.close()


def test_files_beside_the_lake_are_out_of_reach(server: FlightSqlServer, tmp_path: Path):
    (tmp_path / "secret.csv").write_text("a\n1\n")
    place = tmp_path / "secret.csv"
    with connected(server) as connection, connection.cursor() as cursor:
        for text in (f"SELECT * FROM read_csv('{place}')", f"SELECT * FROM '{place}'"):
            with pytest.raises(Exception, match="FlightSQL") as raised:
                cursor.execute(text)
            assert "Traceback" not in str(raised.value)


def test_listings_name_what_is_there(server: FlightSqlServer):
    with connected(server) as connection:
        (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        assert catalog["catalog_name"] == "lake"
        (shop,) = catalog["catalog_db_schemas"]
        tables = {table["table_name"]: table for table in shop["db_schema_tables"]}
        assert sorted(tables) == ["events", "orders"]
        assert [c["column_name"] for c in tables["orders"]["table_columns"]] == ["k", "v"]
        some = connection.adbc_get_objects(depth="tables", table_name_filter="ord%").read_all().to_pylist()
        assert [t["table_name"] for t in some[0]["catalog_db_schemas"][0]["db_schema_tables"]] == ["orders"]
        schema = connection.adbc_get_table_schema("orders", db_schema_filter="shop")
        assert schema == pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
        assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]


@pytest.mark.parametrize("name", golden.java_tables())
def test_tables_of_java_paimon_arrive_as_our_scan_reads_them(name: str):
    """Each row of each reference table, by value."""
    lake = ts.connect(golden.JAVA / "warehouse")
    expected = lake.table(f"j.{name}").scan().to_arrow()
    types = golden.types_of(golden.java(name))
    with FlightSqlServer(lake) as server, connected(server) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM j.`{name}`")
        rows = cursor.fetch_arrow_table()
    assert rows.schema.names == expected.schema.names
    assert in_order(cells(rows, types)) == in_order(cells(expected, types))


@contextmanager
def served(lake: ts.Lake, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, Any]]:
    """`sql LAKE --serve` as a process, the file of its token, and a reader of all of shop.orders."""
    command = [sys.executable, "-m", "tablestore.cli", "sql", lake.warehouse, "--serve"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TABLESTORE_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            address, token = process.stdout.readline().strip(), process.stdout.readline().strip()
            path = Path(token.removeprefix("token in "))
            with flight.FlightClient(address) as client:
                bearer = f"Bearer {path.read_text()}".encode()
                options = flight.FlightCallOptions(headers=[(b"authorization", bearer)])
                query = packed("CommandStatementQuery", query="SELECT * FROM shop.orders")
                info = client.get_flight_info(flight.FlightDescriptor.for_command(query), options)
                yield process, path, client.do_get(info.endpoints[0].ticket, options)
        finally:
            process.kill()


@pytest.mark.large
def test_the_command_serves_until_it_is_stopped(lake: ts.Lake, tmp_path: Path):
    with served(lake, tmp_path) as (process, token, reader):
        assert token.stat().st_mode & 0o777 == 0o600
        assert reader.read_all().num_rows == 1_000
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 130
        assert not token.exists()


@pytest.mark.large
def test_a_client_that_stops_reading_holds_the_end_until_the_second_ctrl_c(lake: ts.Lake, tmp_path: Path):
    rows = 300_000  # 90 MB in five batches: more than gRPC sends ahead
    lake.table("shop.orders").write(pa.table({"k": range(rows), "v": ["x" * 300] * rows}))
    with served(lake, tmp_path) as (process, token, reader):
        reader.read_chunk()
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
        assert not token.exists()
