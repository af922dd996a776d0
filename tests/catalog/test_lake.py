"""Databases and tables, the same through every catalog that needs no server."""

from __future__ import annotations

import multiprocessing
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.catalog.sql import server_of
from tablestore.core.errors import (
    AlreadyExists,
    InvalidOption,
    InvalidRequest,
    NotFound,
    Unavailable,
    Unsupported,
)

COLUMNS = {"k": ts.INT, "v": ts.STRING}
Connect = Callable[..., ts.Lake]


@pytest.fixture(params=["filesystem", "jdbc", "jdbc with locks"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    """A function that opens the same lake anew, with more options if given."""
    options: dict[str, object] = {"warehouse": tmp_path / "lake"}
    if request.param != "filesystem":
        options |= {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path / 'catalog.sqlite'}"}
        options |= {"lock_enabled": request.param != "jdbc"}
    return lambda **more: ts.connect(**{**options, **more})


@pytest.fixture
def lake(connect: Connect) -> ts.Lake:
    return connect()


def create(lake: ts.Lake, name: str, **more: object) -> ts.Table:
    return lake.create_table(name, schema=COLUMNS, primary_key=["k"], **more)


def write(table: ts.Table, *rows: tuple[int, str]) -> None:
    table.write([{"k": k, "v": v} for k, v in rows])


def rows(table: ts.Table) -> list[tuple[int, str]]:
    return sorted((r["k"], r["v"]) for r in table.scan().to_arrow().to_pylist())


def test_a_table_is_made_found_and_dropped(lake: ts.Lake, connect: Connect) -> None:
    write(create(lake, "shop.orders"), (1, "a"))
    again = connect()
    assert (again.databases(), again.tables(), again.tables("shop")) == (
        ["shop"],
        ["shop.orders"],
        ["orders"],
    )
    assert "shop.orders" in again
    assert rows(again.table("shop.orders")) == [(1, "a")]
    assert again.table("shop.orders").check() == []
    again.drop_table("shop.orders")
    assert lake.tables() == []
    assert lake.databases() == ["shop"], "a database outlives its tables"
    with pytest.raises(NotFound, match=r"shop\.orders"):
        lake.table("shop.orders")
    write(create(lake, "shop.orders"), (2, "b"))
    assert rows(lake.table("shop.orders")) == [(2, "b")]


def test_a_name_is_given_once(lake: ts.Lake) -> None:
    first = create(lake, "shop.orders")
    with pytest.raises(AlreadyExists, match=r"shop\.orders"):
        create(lake, "shop.orders")
    same = create(lake, "shop.orders", if_not_exists=True)
    assert same.options == first.options
    with pytest.raises(AlreadyExists, match="shop"):
        lake.create_database("shop")
    lake.create_database("shop", if_not_exists=True)


def test_databases_come_and_go(lake: ts.Lake) -> None:
    lake.create_database("empty")
    create(lake, "full.t")
    assert lake.databases() == ["empty", "full"]
    assert lake.tables("empty") == []
    lake.drop_database("empty")
    with pytest.raises(InvalidRequest, match="cascade"):
        lake.drop_database("full")
    lake.drop_database("full", cascade=True)
    assert lake.databases() == []
    with pytest.raises(NotFound):
        lake.drop_database("full")
    lake.drop_database("full", if_exists=True)
    lake.drop_table("full.t", if_exists=True)


def test_absent_names_are_answered_with_near_ones(lake: ts.Lake) -> None:
    create(lake, "shop.orders")
    with pytest.raises(NotFound, match=r"did you mean shop\.orders"):
        lake.table("shop.oders")
    with pytest.raises(NotFound, match="did you mean shop"):
        lake.tables("shopp")
    with pytest.raises(NotFound, match=r"shop\.orders"):
        lake.drop_table("shop.orderz")
    with pytest.raises(NotFound):
        lake.rename_table("shop.nothing", "shop.orders2")


def test_a_table_gets_another_name(lake: ts.Lake, connect: Connect) -> None:
    write(create(lake, "shop.orders"), (1, "a"))
    lake.create_database("archive")
    lake.rename_table("shop.orders", "archive.orders_2025")
    assert connect().tables() == ["archive.orders_2025"]
    moved = lake.table("archive.orders_2025")
    write(moved, (2, "b"))
    assert rows(moved) == [(1, "a"), (2, "b")]
    assert moved.check() == []
    create(lake, "shop.orders")
    with pytest.raises(AlreadyExists, match=r"archive\.orders_2025"):
        lake.rename_table("shop.orders", "archive.orders_2025")
    assert rows(lake.table("archive.orders_2025")) == [(1, "a"), (2, "b")]
    with pytest.raises(NotFound, match="nowhere"):
        lake.rename_table("shop.orders", "nowhere.orders")


@pytest.mark.parametrize("name", [
    "../t", "a/b.t", "a.b.c", "shop..t", "shop.../t", "shop.", "", "..", "shop.t$snapshots", "shop.t$a$b",
    "shop.t\x00", "shop.`../../t`",
])  # fmt: skip
def test_names_cannot_leave_their_place(lake: ts.Lake, name: str) -> None:
    with pytest.raises(InvalidRequest):
        create(lake, name)
    with pytest.raises(InvalidRequest):
        lake.create_database(f"../{name}")
    assert lake.databases() == []


def test_tables_of_ones_own_place_need_hive(lake: ts.Lake, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="path"):
        create(lake, "shop.orders", options={"path": str(tmp_path / "else")})
    assert lake.tables("shop") == []


def test_defaults_of_the_catalog_reach_new_tables(connect: Connect) -> None:
    lake = connect(**{"table-default.target-file-size": "1 mb", "table-default.bucket": "3"})
    assert create(lake, "shop.a").options["target-file-size"] == "1 mb"
    assert create(lake, "shop.b", options={"bucket": 2}).options["bucket"] == "2"


def _create(options: dict[str, str], start: object, answers: object) -> None:
    lake = ts.connect(**options)
    start.wait()
    try:
        create(lake, "shop.orders")
    except AlreadyExists:
        answers.put("refused")
    else:
        answers.put("made")


@pytest.mark.large
@pytest.mark.parametrize("metastore", ["filesystem", "jdbc"])
@pytest.mark.sample(1)
def test_of_two_processes_that_make_a_table_one_does(metastore: str, tmp_path: Path) -> None:
    options = {"metastore": metastore, "warehouse": str(tmp_path / "lake")}
    ts.connect(**options).create_database("shop")
    spawn = multiprocessing.get_context("spawn")
    start, answers = spawn.Barrier(2), spawn.Queue()
    both = [spawn.Process(target=_create, args=(options, start, answers)) for _ in range(2)]
    for p in both:
        p.start()
    assert sorted(answers.get(timeout=240) for _ in both) == ["made", "refused"]
    for p in both:
        p.join()
    write(ts.connect(**options).table("shop.orders"), (1, "a"))
    assert ts.connect(**options).table("shop.orders").check() == []


class TestSqlRegistry:
    """What a jdbc catalog keeps in SQL."""

    @pytest.fixture
    def database(self, tmp_path: Path) -> Path:
        return tmp_path / "catalog.sqlite"

    @pytest.fixture
    def options(self, tmp_path: Path, database: Path) -> dict[str, object]:
        return {"metastore": "jdbc", "uri": f"sqlite:///{database}", "warehouse": tmp_path / "lake"}

    def all(self, database: Path, select: str) -> list[tuple[object, ...]]:
        with sqlite3.connect(database) as connection:
            return connection.execute(select).fetchall()

    def test_lakes_with_other_keys_do_not_see_each_other(self, options: dict[str, object]) -> None:
        first, second = (ts.connect(**options, catalog_key=key) for key in ("one", "two"))
        create(first, "shop.orders")
        assert (second.databases(), first.tables()) == ([], ["shop.orders"])

    def test_without_a_uri_the_warehouse_holds_the_database(self, tmp_path: Path) -> None:
        lake = ts.connect(tmp_path / "lake", metastore="jdbc")
        create(lake, "shop.orders")
        assert (tmp_path / "lake" / "paimon-catalog.sqlite").exists()
        assert ts.connect(tmp_path / "lake", metastore="jdbc").tables() == ["shop.orders"]
        assert ts.connect(tmp_path / "lake").tables() == ["shop.orders"], "the files are the same"

    def test_names_are_values_and_no_sql(self, options: dict[str, object]) -> None:
        lake = ts.connect(**options)
        name = "x'); DROP TABLE paimon_tables; --"
        lake.create_database(name)
        create(lake, f"`{name}`.`o'brien`")
        assert lake.tables(name) == ["o'brien"]

    def test_a_table_whose_row_is_missing_is_repaired(
        self, options: dict[str, object], database: Path
    ) -> None:
        lake = ts.connect(**options)
        write(create(lake, "shop.orders"), (1, "a"))
        with sqlite3.connect(database) as connection:
            connection.execute("DELETE FROM paimon_tables")
        with pytest.raises(NotFound):
            lake.table("shop.orders")
        with pytest.raises(AlreadyExists, match="repair_table"):
            create(lake, "shop.orders")
        lake.repair_table("shop.orders")
        lake.repair_table("shop.orders")
        assert rows(lake.table("shop.orders")) == [(1, "a")]
        with pytest.raises(NotFound):
            lake.repair_table("shop.never")

    def test_properties_follow_the_newest_schema(self, options: dict[str, object], database: Path) -> None:
        table = create(ts.connect(**options), "shop.orders", options={"bucket": 2})
        changed = table.alter(ts.set_options({"write-only": "true"}), ts.add("w", ts.INT))
        actual = dict(self.all(database, "SELECT property_key, property_value FROM paimon_table_properties"))
        assert actual == {**changed.options, "primary-key": "k", "bucket-key": "k"}

    def test_a_taken_lock_is_waited_for_and_then_named(
        self, options: dict[str, object], database: Path
    ) -> None:
        quick = {"lock_enabled": True, "lock_acquire_timeout": "300 ms", "lock_check_max_sleep": "100 ms"}
        lake = ts.connect(**options, **quick)
        table = create(lake, "shop.orders")
        with sqlite3.connect(database) as connection:
            insert = "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, 480)"
            connection.execute(insert, ("jdbc.shop.orders",))
        with pytest.raises(Unavailable, match=r"jdbc\.shop\.orders is held since .* expires after 480 s"):
            write(table, (1, "a"))
        assert table.store.snapshots.ids() == []
        with sqlite3.connect(database) as connection:
            connection.execute("UPDATE paimon_distributed_locks SET acquired_at = '2020-01-01 00:00:00'")
        write(table, (1, "a"))  # its holder died long ago
        assert rows(table) == [(1, "a")]
        assert self.all(database, "SELECT * FROM paimon_distributed_locks") == []

    def test_a_lock_taken_over_is_not_given_back_by_its_first_holder(
        self, options: dict[str, object], database: Path
    ) -> None:
        lake = ts.connect(**options, lock_enabled=True)
        create(lake, "shop.orders")
        with lake._catalog.hold("shop", "orders"), sqlite3.connect(database) as connection:
            connection.execute("UPDATE paimon_distributed_locks SET acquired_at = '2031-01-01 00:00:00'")
        assert len(self.all(database, "SELECT * FROM paimon_distributed_locks")) == 1

    def test_a_branch_has_a_lock_of_its_own(self, options: dict[str, object], database: Path) -> None:
        lake = ts.connect(**options, lock_enabled=True, lock_acquire_timeout="300 ms")
        table = create(lake, "shop.orders")
        write(table, (1, "a"))
        table.branches.create("b")
        holder = ts.connect(**options, lock_enabled=True)._catalog  # its locks last for minutes
        with holder.hold("shop", "orders"):
            write(lake.table("shop.orders$branch_b"), (2, "b"))
        with holder.hold("shop", "orders$branch_b"):
            write(table, (3, "c"))
            with pytest.raises(Unavailable, match=r"shop\.orders\$branch_b is held"):
                write(lake.table("shop.orders$branch_b"), (4, "d"))

    def test_a_lock_key_that_does_not_fit_is_refused(self, options: dict[str, object]) -> None:
        lake = ts.connect(**options, lock_enabled=True, lock_key_max_length=20)
        with pytest.raises(InvalidOption, match="lock-key-max-length"):
            create(lake, "a_long_database.a_long_table")


def test_a_file_is_no_lake(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(InvalidRequest, match="is a file; a lake is a directory"):
        ts.connect(tmp_path / "f")


def test_a_table_is_no_lake_and_a_lake_no_table(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path / "lake")
    table = create(lake, "shop.orders")
    with pytest.raises(InvalidRequest, match=r"is a table, not a lake: tablestore\.open"):
        ts.connect(table.location)
    with pytest.raises(NotFound, match=r"it is a lake; tablestore\.connect\('.*lake'\)"):
        ts.open(tmp_path / "lake")
    with pytest.raises(NotFound, match=r"it is a database; tablestore\.connect\('.*lake'\)"):
        ts.open(tmp_path / "lake" / "shop.db")
    with pytest.raises(NotFound, match=r"no table at .*nothing$"):
        ts.open(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"metastor": "jdbc"}, "did you mean 'metastore'"),
        ({"metastore": "glue"}, "filesystem, jdbc, hive"),
        ({"my.own": 1}, r"unknown catalog option 'my\.own'; there are case-sensitive"),
        ({"uri": "sqlite:///x"}, "'uri' is for metastore hive and jdbc; this one is filesystem"),
        ({"metastore": "jdbc", "uri": "sqlite:///x", "hive-conf-dir": "/etc"}, "is for metastore hive"),
        ({"jdbc.useSSL": True, "metastore": "jdbc", "uri": "sqlite:///x"}, r"jdbc\.useSSL"),
        ({"s3.acess-key": "me"}, r"did you mean 's3\.access\.key'"),
        ({"fs.oss.endpoint": "x"}, r"fs\.oss\.endpoint"),
        ({"table-default.bukket": 4}, "did you mean 'bucket'"),
        ({"lock.type": "zookeeper"}, "zookeeper"),
        ({"lock_enabled": True}, "has no locks"),
        ({"lock_enabled": "perhaps", "metastore": "jdbc"}, r"lock\.enabled"),
        ({"metastore": "jdbc", "lock_acquire_timeout": "soon"}, "lock-acquire-timeout"),
        ({"metastore": "hive"}, "thrift://"),
        ({"metastore": "hive", "uri": "http://host"}, "thrift://"),
        ({"metastore": "jdbc", "uri": "sqlite::memory:"}, "no other process"),
    ],
)
def test_options_that_cannot_be_used_are_named(
    options: dict[str, object], match: str, tmp_path: Path
) -> None:
    with pytest.raises((InvalidOption, Unsupported), match=match):
        ts.connect(tmp_path / "lake", **options)


def test_options_of_other_engines_that_change_nothing_here_are_taken(tmp_path: Path) -> None:
    given = {"cache-enabled": True, "cache.expire-after-write": "1 h", "default-database": "d"}
    assert ts.connect(tmp_path / "lake", **given, **{"resolving-file-io.enabled": True}).tables() == []


def test_a_lake_needs_a_warehouse() -> None:
    with pytest.raises(InvalidOption, match="warehouse"):
        ts.connect(metastore="jdbc")


def test_other_databases_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="oracle"):
        ts.connect(tmp_path / "lake", metastore="jdbc", uri="jdbc:oracle:thin:@h")


def test_a_lake_that_folds_names_refuses_others(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path / "lake", case_sensitive=False)
    for name, columns in (("shop.Orders", COLUMNS), ("Shop.orders", COLUMNS), ("shop.orders", {"K": ts.INT})):
        with pytest.raises(InvalidRequest, match="lower case"):
            lake.create_table(name, schema=columns)
    assert lake.databases() == []


def test_pickled_options_show_no_secret(tmp_path: Path) -> None:
    secrets = {"jdbc.password": "hush-hush", "s3.secret-key": "tell-nobody"}
    table = create(ts.connect(tmp_path, metastore="jdbc", lock_enabled=True, **secrets), "shop.orders")
    packed = pickle.dumps(table.store)
    assert b"hush-hush" not in packed
    assert b"tell-nobody" not in packed
    assert "hush-hush" not in repr(table.store)
    again = ts.Table(pickle.loads(packed), "shop.orders")
    write(again, (1, "a"))
    assert rows(table) == [(1, "a")]


def test_a_password_is_shown_nowhere() -> None:
    server = server_of("jdbc:postgresql://h:5/db?user=u&password=pass%20word&sslmode=disable")
    assert (server.url, server.user, server.password) == (
        "postgresql://h:5/db?sslmode=disable",
        "u",
        "pass word",
    )
    other = server_of("postgresql://u:pass%20word@h:5/db")
    assert (other.url, other.user, other.password) == ("postgresql://h:5/db", "u", "pass word")
    assert "pass word" not in repr(server)
    assert b"pass word" not in pickle.dumps(server)
    assert pickle.loads(pickle.dumps(server)) == server


def test_a_mistyped_path_is_no_empty_lake(tmp_path: Path) -> None:
    ts.connect(tmp_path / "lake").create_database("shop")
    wrong = ts.connect(tmp_path / "lakke")
    missing = rf"there is no lake {tmp_path}/lakke; did you mean {tmp_path}/lake\? "
    assert f"did you mean {tmp_path}/lake?" in repr(wrong)
    for look in (lambda: wrong.table("shop.orders"), lambda: wrong.tables("shop")):
        with pytest.raises(ts.NotFound, match=missing + r"create_database\(name\) makes it"):
            look()
    for look in (lambda: wrong.drop_table("shop.orders"), lambda: wrong.drop_database("shop")):
        with pytest.raises(ts.NotFound, match=missing):
            look()
    for text in ("SHOW DATABASES", "SHOW TABLES", "SHOW VIEWS", "USE shop", "SELECT * FROM shop.orders"):
        with pytest.raises(ts.NotFound, match=missing + "CREATE DATABASE name makes it"):
            wrong.sql(text)
    assert not (tmp_path / "lakke").exists()
    wrong.sql("CREATE DATABASE name")
    assert wrong.databases() == ["name"]
