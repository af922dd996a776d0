"""A source server: addresses without secrets, settings that are refused with what mends them, errors,
patience."""

from __future__ import annotations

import logging
import pickle
import threading
from pathlib import Path

import pytest

from tablestore.cdc.databases.address import PASSWORD_VARIABLE, Address, patiently
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.server_checks import require_in_log, require_ready, server_id
from tablestore.core.errors import InvalidRequest, NotFound, Unavailable
from tablestore.core.options.environment import resolved
from tests.faults import SimEnv
from tests.servers import mariadb as servers
from tests.servers.mariadb import PASSWORD, MariaDb


def test_an_address_has_no_secret(tmp_path: Path) -> None:
    address = Address.parse("mysql://reader@db.example:3307/shop")
    assert address == Address("reader", "db.example", 3307, "shop")
    assert str(address) == "mysql://reader@db.example:3307/shop"
    assert address.password() == PASSWORD
    assert PASSWORD.encode() not in pickle.dumps(address)
    assert PASSWORD not in repr(address)
    (tmp_path / "p").write_text("other\n")
    assert Address.parse("mysql://u@h", password_file=str(tmp_path / "p")).password() == "other"
    for wrong in ("mysql://u:hidden@h/d", "mysql://u@h/d?password=hidden"):
        with pytest.raises(InvalidRequest, match=PASSWORD_VARIABLE) as raised:
            Address.parse(wrong)
        assert "hidden" not in str(raised.value)
    for wrong in ("mysql://h/d", "jdbc:mysql://u@h", "mysql://u@h:x/d", "mysql://u@h/d?a=b"):
        with pytest.raises(InvalidRequest, match="write mysql://user@host"):
            Address.parse(wrong)


def test_positions_are_ordered_by_the_number_of_their_file() -> None:
    old, new = LogPosition("binlog.999999", 400), LogPosition("binlog.1000000", 4)
    assert new.reaches(old)
    assert not old.reaches(new)
    assert LogPosition.from_json(new.to_json()) == new
    with pytest.raises(InvalidRequest):
        LogPosition.from_json(["a"])


def test_a_server_that_is_ready_is_not_refused(connection: Connection, database: str) -> None:
    dialect = dialect_of(connection)
    require_ready(connection, dialect, [database])
    assert server_id(connection) == 4711
    position = dialect.position(connection)
    assert position.file.startswith("binlog.")
    assert position.gtid.startswith("0-4711-")
    require_in_log(connection, position)
    with pytest.raises(NotFound, match=r"start with a new snapshot.*binlog_expire_logs_seconds"):
        require_in_log(connection, LogPosition("binlog.000999", 4))


def test_every_wrong_setting_is_named_with_what_mends_it(connection: Connection, mariadb: MariaDb) -> None:
    wrong = {
        "binlog_format": "MIXED",
        "binlog_row_image": "MINIMAL",
        "binlog_row_metadata": "NO_LOG",
        "binlog_expire_logs_seconds": "60",
    }
    before = {name: mariadb.run(f"SELECT @@global.{name}")[0][0] for name in wrong}
    try:
        mariadb.run(*(f"SET GLOBAL {name} = {value}" for name, value in wrong.items()))
        with pytest.raises(InvalidRequest) as raised:
            require_ready(connection, dialect_of(connection), [])
    finally:
        mariadb.run(*(f"SET GLOBAL {name} = {value!r}" for name, value in before.items() if name[-1] != "s"))
        mariadb.run(f"SET GLOBAL binlog_expire_logs_seconds = {before['binlog_expire_logs_seconds']}")
    for name in wrong:
        assert f"SET GLOBAL {name} = " in str(raised.value)
    require_ready(connection, dialect_of(connection), [])


def test_the_right_that_a_user_lacks_is_named(mariadb: MariaDb, connection: Connection) -> None:
    mariadb.run(f"CREATE USER poor@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
    try:
        with (
            Connection.open(Address.parse(mariadb.url.replace("reader", "poor"))) as poor,
            pytest.raises(InvalidRequest, match=r"GRANT SELECT, REPLICATION SLAVE.* TO 'poor'"),
        ):
            require_ready(poor, dialect_of(poor), [])
    finally:
        mariadb.run("DROP USER poor@'127.0.0.1'")


def test_a_wrong_password_is_said_and_not_shown(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "quite another")
    with pytest.raises(InvalidRequest, match=f"Access denied.*{PASSWORD_VARIABLE}") as raised:
        Connection.open(address)
    assert "quite another" not in str(raised.value)


def test_what_is_not_there_is_not_found(connection: Connection, address: Address) -> None:
    with pytest.raises(NotFound, match="no_such"):
        connection.rows("SELECT * FROM no_such")
    with pytest.raises(NotFound, match="no_database"):
        Connection.open(Address(address.user, address.host, address.port, "no_database"))
    with pytest.raises(InvalidRequest, match="syntax"):
        connection.rows("SELEKT 1")


@pytest.mark.large
def test_a_server_that_is_gone_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with servers.mariadb(servers.FAST) as server:
        address = Address.parse(server.url)
        with Connection.open(address) as connection:
            server.kill()
            with pytest.raises(Unavailable):
                connection.rows("SELECT 1")
        with pytest.raises(Unavailable, match="given up after 0 s"):
            patiently(lambda: Connection.open(address), what="try", patience_seconds=0.3)
        later = threading.Timer(1.0, server.start)
        later.start()
        with caplog.at_level(logging.WARNING):
            patiently(lambda: Connection.open(address), what="connecting", patience_seconds=30).close()
        later.join()
    assert "connecting: mysql://reader@127.0.0.1" in caplog.text
    assert PASSWORD not in caplog.text


def test_what_is_tried_again_is_logged_without_values_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SHOP_USER", "user-of-the-shop")
    user = resolved("username", "${env:SHOP_USER}")
    tries = iter([Unavailable(f"no answer to {user}"), None])

    def action() -> int:
        error = next(tries)
        if error is not None:
            raise error
        return 1

    assert patiently(action, what=f"mysql://{user}@h", env=SimEnv()) == 1
    assert "mysql://***@h: no answer to ***; again in" in caplog.text
    assert user not in caplog.text
