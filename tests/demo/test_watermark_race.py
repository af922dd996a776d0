"""The race of the log and a SELECT: ours loses nothing, and what is counted as lost really never comes."""

from __future__ import annotations

import pytest

from notebooks.demo import mariadb, watermark_race
from notebooks.demo.watermark_race import OURS, TEXTBOOK, Race, Read
from tablestore.cdc.databases.address import PASSWORD_VARIABLE, Address
from tablestore.cdc.mysql.events import LogPosition
from tests.suite import counterparts


def test_a_row_is_lost_if_neither_the_read_nor_the_log_has_it() -> None:
    race = Race({1: 11, 2: 12, 3: 14, 4: 13})
    read = Read(TEXTBOOK, LogPosition("b.1", 9, "0-1-13"), 1, frozenset({2}))
    race.reads += [read, Read(OURS, LogPosition("b.1", 9, "0-1-13"), 1, frozenset({2, 3, 4}))]
    assert race.lost(read) == {4}
    assert race.worst() == read
    assert race.to_arrow()["rows_lost"].to_pylist() == [1, 0]


def test_the_read_view_knows_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    counterparts.need("MariaDB")
    with mariadb.MariaDb() as server:
        monkeypatch.setenv(PASSWORD_VARIABLE, server.password_file.read_text())
        address = Address.parse(f"{server.url}/{watermark_race.DATABASE}")
        race = watermark_race.run(server, address, seconds=2, writers=4)
        assert race.written
        assert [read for read in race.reads if read.reader == OURS and race.lost(read)] == []
        for read in race.reads[-2:]:
            there = {key for key in race.written if key > read.low}
            actual = watermark_race.keys_in_log(address, read)
            assert (read.keys | actual) & there == there - race.lost(read)
            assert not race.lost(read) & actual
