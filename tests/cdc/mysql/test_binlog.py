"""The binlog: changes in order, where transactions end, and nothing passed over in silence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pymysql.connections import Connection as PyMySqlConnection

from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql import events, statements
from tablestore.cdc.mysql.binlog import (
    ImageChoice,
    LogChange,
    LogStatement,
    RowImages,
    TransactionEnd,
    read_log,
)
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.core.errors import Corrupt, NotFound, SchemaMismatch, Unsupported
from tests.servers.mariadb import MariaDb


class Source:
    """A table whose changes are read back."""

    def __init__(self, mariadb: MariaDb, address: Address, columns: str, options: str = "") -> None:
        self.server, self.address, self.name = mariadb, address, f"{address.database}.t"
        mariadb.run(f"CREATE TABLE {self.name} ({columns}) {options}")
        with Connection.open(address) as connection:
            self.table = SourceTable.read(connection, address.database, "t")
        self.start = self.position()

    def position(self) -> LogPosition:
        with Connection.open(self.address) as connection:
            return dialect_of(connection).position(connection)

    def run(self, *statements: str) -> None:
        """In one session; `t` is the table."""
        with self.server.connect(database=self.address.database) as owner, owner.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def changes(self, **how: Any) -> list[LogChange]:
        how = {"start": self.start, "until": self.position(), **how}
        return list(read_log(self.address, [self.table], **how))


@pytest.fixture
def source(mariadb: MariaDb, address: Address) -> Source:
    return Source(mariadb, address, "id INT PRIMARY KEY, v VARCHAR(100)")


def rows(changes: list[LogChange]) -> list[tuple[Any, ...]]:
    """(kind, values …) of each row."""
    return [
        (kind, *row.values())
        for c in changes
        if isinstance(c, RowImages)
        for kind, row in zip(c.kinds.to_pylist(), c.batch.to_pylist(), strict=True)
    ]


def test_changes_come_in_order_with_their_kinds(source: Source) -> None:
    source.run(
        "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
        "UPDATE t SET id = 3 WHERE id = 2",
        "BEGIN",
        "INSERT INTO t VALUES (4, 'no')",
        "ROLLBACK",
        "BEGIN",
        "INSERT INTO t VALUES (5, 'x')",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (6, 'no')",
        "ROLLBACK TO s",
        "DELETE FROM t WHERE id = 1",
        "COMMIT",
    )
    changes = source.changes()
    wanted = [(0, 1, "a"), (0, 2, None), (1, 2, None), (2, 3, None), (0, 5, "x"), (3, 1, "a")]
    assert rows(changes) == wanted
    assert isinstance(changes[-1], TransactionEnd)
    assert changes[-1].position == source.position()
    assert changes[-1].transactions == 3
    assert abs(changes[-1].seconds - source.server.run("SELECT UNIX_TIMESTAMP()")[0][0]) < 60
    assert source.changes(start=changes[-1].position) == []
    assert rows(source.changes(until=None)) == wanted
    assert rows(source.changes(by_gtid=True)) == wanted


def test_statements_stand_between_the_rows_they_part(source: Source) -> None:
    database = source.address.database
    source.run("INSERT INTO t VALUES (1, 'a')", "CREATE TABLE other (x INT)", "INSERT INTO other VALUES (1)")
    source.run("TRUNCATE t", "INSERT INTO t VALUES (2, 'b')")
    changes = source.changes()
    shown = [c.text if isinstance(c, LogStatement) else type(c).__name__ for c in changes]
    assert shown == [
        *("RowImages", "TransactionEnd"),
        *("CREATE TABLE other (x INT)", "TransactionEnd"),
        *("TransactionEnd", "TRUNCATE t", "TransactionEnd"),
        *("RowImages", "TransactionEnd"),
    ]
    assert {c.database for c in changes if isinstance(c, LogStatement)} == {database}
    ends = [c.position for c in changes if isinstance(c, TransactionEnd)]
    assert ends == sorted(ends, key=lambda p: p.order)
    for end in ends:  # each of them is a place to go on from
        rest = source.changes(start=end)
        assert rest == [] or changes[-1] in rest


def test_a_log_goes_on_in_the_next_file(source: Source) -> None:
    source.run("INSERT INTO t VALUES (1, 'a')", "FLUSH BINARY LOGS")
    between = source.position()
    assert rows(source.changes(until=between)) == [(0, 1, "a")]
    source.run("INSERT INTO t VALUES (2, 'b')", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 'c')")
    assert rows(source.changes()) == [(0, 1, "a"), (0, 2, "b"), (0, 3, "c")]
    assert rows(source.changes(start=between)) == [(0, 2, "b"), (0, 3, "c")]


@pytest.mark.parametrize(
    "setting", ["log_bin_compress = ON", "binlog_checksum = NONE", "log_bin_compress = OFF"]
)
def test_compressed_events_and_those_without_checksums_are_read(source: Source, setting: str) -> None:
    name = setting.split()[0]
    before = source.server.run(f"SELECT @@global.{name}")[0][0]
    text = "long " * 15
    source.run(f"SET GLOBAL {setting}")
    try:
        source.run(
            f"INSERT INTO t SELECT seq, '{text}' FROM seq_1_to_500",
            "UPDATE t SET v = 'short' WHERE id <= 2",
            "DELETE FROM t WHERE id > 499",
            f"CREATE TABLE other (x INT COMMENT '{text * 10}')",
        )
    finally:
        source.run(f"SET GLOBAL {name} = {before}")
    changes = source.changes()
    wanted = [(0, i, text) for i in range(1, 501)]
    wanted += [change for i in (1, 2) for change in ((1, i, text), (2, i, "short"))]
    assert rows(changes) == [*wanted, (3, 500, text)]
    assert any(isinstance(c, LogStatement) and c.text.startswith("CREATE TABLE other") for c in changes)


def test_a_damaged_event_is_found(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.run("INSERT INTO t VALUES (1, 'a')")
    end = source.position()
    there = PyMySqlConnection._read_packet

    def damaged(self: PyMySqlConnection, *kind: Any) -> Any:
        packet = there(self, *kind)
        if len(packet._data) > 30 and packet._data[5] in events.ROWS and packet._data[0] == 0:
            packet._data = packet._data[:-6] + bytes([packet._data[-6] ^ 1]) + packet._data[-5:]
        return packet

    monkeypatch.setattr(PyMySqlConnection, "_read_packet", damaged)
    with pytest.raises(Corrupt, match="the checksum of an event is wrong"):
        source.changes(until=end)


def test_images_without_all_columns_are_refused(source: Source) -> None:
    source.run(
        "INSERT INTO t VALUES (1, 'a')", "SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET v = 'b'"
    )
    with pytest.raises(Unsupported, match=r"row images without all columns.*SET GLOBAL binlog_row_image"):
        source.changes()


def test_rows_changed_by_a_statement_are_refused(source: Source) -> None:
    source.run(
        "CREATE TABLE other (x INT)", "SET SESSION binlog_format = STATEMENT", "INSERT INTO other VALUES (1)"
    )
    with pytest.raises(Unsupported, match="GRANT TRIGGER, SHOW VIEW ON"):
        source.changes()
    source.run("GRANT TRIGGER, SHOW VIEW ON *.* TO reader@'127.0.0.1'")
    try:
        assert rows(source.changes()) == []
    finally:
        source.run("REVOKE TRIGGER, SHOW VIEW ON *.* FROM reader@'127.0.0.1'")
    source.run("SET SESSION binlog_format = STATEMENT", "INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(Unsupported, match="a change of rows as a statement"):
        source.changes()


def test_xa_transactions_are_refused(source: Source) -> None:
    def prepared(table: str) -> list[str]:
        change = f"INSERT INTO {table} VALUES (1, 'a')"
        return ["XA START 'x'", change, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"]

    source.run("CREATE TABLE other LIKE t", *prepared("other"))
    assert rows(source.changes()) == []
    source.run(*prepared("t"))
    with pytest.raises(Unsupported, match="XA transactions"):
        source.changes()


def test_tables_without_transactions_are_read(mariadb: MariaDb, address: Address) -> None:
    source = Source(mariadb, address, "id INT PRIMARY KEY, v VARCHAR(100)", "ENGINE = MyISAM")
    source.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "BEGIN", "DELETE FROM t WHERE id = 1", "ROLLBACK")
    assert rows(source.changes()) == [(0, 1, "a"), (0, 2, "b"), (3, 1, "a")]


def test_what_a_log_does_not_have_is_said(source: Source) -> None:
    source.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (1, 'a')")
    end = source.position()
    source.run(f"PURGE BINARY LOGS TO '{end.file}'")
    with pytest.raises(NotFound, match="start with a new snapshot"):
        source.changes()
    with pytest.raises(NotFound, match=r"before binlog\.999999:4: the server is another one"):
        source.changes(start=LogPosition(end.file, 4), until=LogPosition("binlog.999999", 4))


def test_an_altered_table_is_refused_by_the_names_of_its_columns(source: Source) -> None:
    source.run("ALTER TABLE t ADD COLUMN w INT, DROP COLUMN v", "INSERT INTO t VALUES (1, 2)")
    with pytest.raises(SchemaMismatch, match=r"other columns in the binlog at binlog.*: \+w, -v"):
        source.changes()


def test_a_widened_column_reads_what_was_written_before(source: Source, connection: Connection) -> None:
    source.run("INSERT INTO t VALUES (1, 'a')", "ALTER TABLE t MODIFY id BIGINT, MODIFY v LONGTEXT")
    source.run("INSERT INTO t VALUES (5000000000, 'b')")
    with pytest.raises(SchemaMismatch, match="column 'id'"):
        source.changes()
    source.table = SourceTable.read(connection, source.address.database, "t")
    assert rows(source.changes()) == [(0, 1, "a"), (0, 5_000_000_000, "b")]


def test_a_large_transaction_comes_in_bounded_batches(mariadb: MariaDb, address: Address) -> None:
    source = Source(mariadb, address, "id INT PRIMARY KEY, v VARCHAR(1000), w LONGBLOB")
    source.run(
        "INSERT INTO t SELECT seq, REPEAT('v', 1000), NULL FROM seq_1_to_60000",
        "INSERT INTO t VALUES (0, NULL, REPEAT('w', 20000000))",
    )
    changes = source.changes()
    batches = [c.batch for c in changes if isinstance(c, RowImages)]
    assert sum(b.num_rows for b in batches) == 60_001
    assert pa.Table.from_batches(batches)["v"].drop_null().unique().to_pylist() == ["v" * 1000]
    assert max(b.nbytes for b in batches[:-1]) < 6 << 20
    assert [len(v.as_py()) for v in batches[-1]["w"] if v.is_valid] == [20_000_000]
    assert len(batches) > 12
    ends = [i for i, c in enumerate(changes) if isinstance(c, TransactionEnd)]
    assert ends[0] > 11  # nowhere within the transaction


def test_roles_of_statements() -> None:
    roles = {
        "BEGIN": "begin",
        "commit /* x */": "commit",
        "/* a */ -- b\nINSERT INTO t": "rows",
        "ROLLBACK TO `s`": "savepoint",
        "ROLLBACK": "rollback",
        "DROP TABLE `t` /* generated by server */": "other",
        "": "other",
        "XA END X'78',X'',1": "savepoint",
        "XA ROLLBACK X'78',X'',1": "commit",
        "/*!50001 REPLACE*/ INTO t VALUES (1)": "rows",
        "/*M!100100 ( */SELECT`f`()": "rows",
        "SET STATEMENT max_statement_time=9 FOR INSERT INTO t VALUES (1)": "rows",
        "SET STATEMENT max_statement_time=9 FOR CREATE TABLE t (a INT)": "other",
        "SET GLOBAL x = 1": "other",
        "ANALYZE FORMAT=JSON UPDATE t SET a = 1": "rows",
        "ANALYZE TABLE t": "other",
    }
    assert {text: statements.role(text) for text in roles} == roles


def test_parts_of_a_table_have_each_image_once_and_all_of_a_key_in_one(source: Source) -> None:
    source.run(
        "INSERT INTO t SELECT seq, 'a' FROM seq_1_to_200",
        "UPDATE t SET v = 'b'",
        "UPDATE t SET id = id + 1000 WHERE id <= 50",
    )
    name = (source.address.database, "t")
    parts = [rows(source.changes(wanted=ImageChoice(parts={name: (i, 3)}))) for i in range(3)]
    keys = [{row[1] for row in part} for part in parts]
    assert min(len(part) for part in parts) > 100
    assert sum(len(part) for part in keys) == len({*keys[0], *keys[1], *keys[2]})
    whole = rows(source.changes())
    moved = [(3 if kind == 1 else 0, key, v) for kind, key, v in whole[-100:]]
    assert sorted(row for part in parts for row in part) == sorted([*whole[:-100], *moved])


def test_rows_have_the_time_of_their_commit(source: Source) -> None:
    source.run(
        *("SET timestamp = 1000000000", "INSERT INTO t VALUES (1, 'a')"),
        *("SET timestamp = 1000000005", "BEGIN", "INSERT INTO t VALUES (2, 'b')"),
        *("SET timestamp = 1000000007", "INSERT INTO t VALUES (3, 'c')", "COMMIT"),
    )
    (actual,) = (c for c in source.changes() if isinstance(c, RowImages))
    assert actual.seconds.to_pylist() == [1000000000, 1000000007, 1000000007]
