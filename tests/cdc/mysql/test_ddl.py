"""Statements of a binlog and what they do to tables, as a table of texts; the real server is in
test_ddl_server.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.columns import SourceColumn, SourceTable
from tablestore.cdc.mysql.ddl import effects, needs_read_again, renamed_columns

ALTER_T = ["alter d.t"]
STATEMENTS: list[tuple[str, list[str]]] = [
    # ALTER in all its spellings
    ("ALTER TABLE t ADD c INT", ALTER_T),
    ("alter table `t` add column c int", ALTER_T),
    ("ALTER TABLE d.t ADD c INT;", ALTER_T),
    ("ALTER TABLE `d`.`t` ADD c INT ;;", ALTER_T),
    ("ALTER  TABLE\n\t`d` . `t`\r\n DROP c", ALTER_T),
    ("ALTER TABLE other.t ADD c INT", ["alter other.t"]),
    ('ALTER TABLE "d"."t" ADD "c" INT', ALTER_T),
    ("ALTER ONLINE TABLE t ADD c INT", ALTER_T),
    ("ALTER OFFLINE TABLE t ADD c INT", ALTER_T),
    ("ALTER IGNORE TABLE t ADD UNIQUE (c)", ALTER_T),
    ("ALTER ONLINE IGNORE TABLE t ADD UNIQUE (c)", ALTER_T),
    ("ALTER TABLE IF EXISTS t ADD c INT", ["alter d.t?"]),
    ("ALTER TABLE t WAIT 10 ADD c INT", ALTER_T),
    ("ALTER TABLE t NOWAIT ADD c INT", ALTER_T),
    ("ALTER TABLE IF EXISTS t WAIT 1 ADD COLUMN IF NOT EXISTS c INT AFTER a, ALGORITHM=INSTANT",
     ["alter d.t?"]),
    ("ALTER TABLE t ADD c INT, ALGORITHM=INPLACE, LOCK=NONE", ALTER_T),
    ("ALTER TABLE t ALGORITHM=COPY, ADD (c INT, INDEX (c))", ALTER_T),
    ("ALTER TABLE t ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='it''s, one; RENAME TABLE t TO x'", ALTER_T),
    ("ALTER TABLE t ORDER BY a", ALTER_T),
    ("ALTER TABLE t", ALTER_T),
    ("/* a comment */ ALTER /* another */ TABLE -- a third\n t # a fourth\n ADD c INT", ALTER_T),
    ("-- only: DROP TABLE t\nALTER TABLE t ADD c INT", ALTER_T),
    ("/*!40000 ALTER TABLE `t` DISABLE KEYS */", ALTER_T),
    ("/*!40000 ALTER TABLE `t` ENABLE KEYS */;", ALTER_T),
    ("/*M!100301 ALTER TABLE t ADD c INT */", ALTER_T),
    ("ALTER TABLE t ADD c INT /*!50100 PARTITION BY HASH (id) PARTITIONS 4 */", ALTER_T),
    ("ALTER TABLE t /*+ a_hint(t) */ ADD c INT", ALTER_T),
    ("SET STATEMENT max_statement_time=10, lock_wait_timeout=1 FOR ALTER TABLE t ADD c INT", ALTER_T),
    ("ALTER TABLE `we``ird.na me` ADD c INT", ["alter d.we`ird.na me"]),
    ("ALTER TABLE `a.b`.`c.d` ADD c INT", ["alter a.b.c.d"]),
    ("ALTER TABLE 1t ADD c INT", ["alter d.1t"]),
    ("ALTER TABLE ta$ble_1 ADD c INT", ["alter d.ta$ble_1"]),
    ("ALTER TABLE größe ADD straße INT", ["alter d.größe"]),
    ("ALTER TABLE `表` ADD `列` INT", ["alter d.表"]),
    ("ALTER TABLE `alter` ADD `table` INT", ["alter d.alter"]),
    ("ALTER TABLE t ADD c VARCHAR(10) DEFAULT 'it''s \\' TO x, y'", ALTER_T),
    ("ALTER TABLE t COMMENT 'a\\\\'", ALTER_T),
    ("ALTER TABLE x ADD FOREIGN KEY (a) REFERENCES t (k)", ["alter d.x"]),
    ("ALTER TABLE t ADD c VARCHAR(9) COMMENT '`', ADD b INT COMMENT '`'", ALTER_T),
    ("ALTER TABLE t RENAME x", ["rename d.t d.x"]),
    ("ALTER TABLE t RENAME TO x", ["rename d.t d.x"]),
    ("ALTER TABLE t RENAME AS e.x", ["rename d.t e.x"]),
    ("ALTER TABLE t RENAME = x", ["rename d.t d.x"]),
    ("ALTER TABLE t ADD c INT, RENAME TO x, DROP b", ["alter d.t", "rename d.t d.x"]),
    ("ALTER TABLE t RENAME COLUMN a TO b, RENAME INDEX i TO j", ALTER_T),
    ("ALTER TABLE t TRUNCATE PARTITION p0", ALTER_T),
    ("ALTER TABLE t REBUILD PARTITION p0, p1", ALTER_T),
    ("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE e.x", ["alter d.t", "unknown e.x"]),
    ("ALTER TABLE t CONVERT PARTITION p0 TO TABLE x", ["alter d.t", "unknown d.x"]),
    ("ALTER TABLE t CONVERT TABLE x TO PARTITION p0 VALUES LESS THAN (9)", ["alter d.t", "drop d.x"]),
    ("DROP INDEX `PRIMARY` ON t", ALTER_T),
    # RENAME TABLE
    ("RENAME TABLE a TO b", ["rename d.a d.b"]),
    ("rename tables `a` to `b`, b2 TO `e`.`c`", ["rename d.a d.b", "rename d.b2 e.c"]),
    ("RENAME TABLE a TO x, b TO a, x TO b", ["rename d.a d.x", "rename d.b d.a", "rename d.x d.b"]),
    ("RENAME TABLE IF EXISTS a WAIT 3 TO b", ["rename d.a d.b?"]),
    ("RENAME TABLE a NOWAIT TO b", ["rename d.a d.b"]),
    ("RENAME TABLE t TO t_old, t_new TO t", ["rename d.t d.t_old", "rename d.t_new d.t"]),
    ("/* gh-ost */ rename /* gh-ost */ table `d`.`t` to `d`.`_t_del`, `d`.`_t_gho` to `d`.`t`",
     ["alter d.t", "unknown d._t_del", "unknown d._t_gho"]),
    ("rename table `d`.`t` to `d`.`_t_20260102030405_del`, `d`.`_t_gho` to `d`.`t`",
     ["alter d.t", "unknown d._t_20260102030405_del", "unknown d._t_gho"]),
    ("RENAME TABLE `d`.`t` TO `d`.`_t_old`, `d`.`_t_new` TO `d`.`t`",
     ["alter d.t", "unknown d._t_old", "unknown d._t_new"]),
    ("RENAME TABLE `d`.`t` TO `d`.`___t_old`, `d`.`__t_new` TO `d`.`t`",
     ["alter d.t", "unknown d.___t_old", "unknown d.__t_new"]),
    ("RENAME TABLE t TO lhma_2026_01_02_03_04_05_678_t, lhmn_t TO t",
     ["alter d.t", "unknown d.lhma_2026_01_02_03_04_05_678_t", "unknown d.lhmn_t"]),
    ("RENAME TABLE t TO __osc_old_t, __osc_new_t TO t",
     ["alter d.t", "unknown d.__osc_old_t", "unknown d.__osc_new_t"]),
    (f"RENAME TABLE {'n' * 64} TO _{'n' * 59}_del, _{'n' * 59}_gho TO {'n' * 64}",
     [f"alter d.{'n' * 64}", f"unknown d._{'n' * 59}_del", f"unknown d._{'n' * 59}_gho"]),
    ("RENAME TABLE t TO _x_del, _x_gho TO t", ["rename d.t d._x_del", "rename d._x_gho d.t"]),
    ("RENAME TABLE t TO e._t_del, e._t_gho TO t", ["rename d.t e._t_del", "rename e._t_gho d.t"]),
    ("RENAME USER a TO b", []),
    # TRUNCATE, DROP
    ("TRUNCATE t", ["truncate d.t"]),
    ("truncate table `t`;", ["truncate d.t"]),
    ("TRUNCATE TABLE e.t WAIT 5", ["truncate e.t"]),
    ("DROP TABLE t", ["drop d.t"]),
    ("DROP TABLES t, e.u", ["drop d.t", "drop e.u"]),
    ("DROP TABLE IF EXISTS `a`,`d`.`t` /* generated by server */", ["drop d.a?", "drop d.t?"]),
    ("DROP TABLE IF EXISTS `t` /* generated by server */", ["drop d.t?"]),
    ('DROP TABLE "t" /* generated by server */', ["drop d.t"]),
    ("DROP TABLE t, u WAIT 1 CASCADE", ["drop d.t", "drop d.u"]),
    ("DROP TABLE /*!40005 IF EXISTS */ t RESTRICT", ["drop d.t?"]),
    ("DROP TEMPORARY TABLE IF EXISTS t", []),
    ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`", []),
    ("DROP DATABASE x", ["drop database x."]),
    ("drop schema if exists `x y`", ["drop database x y.?"]),
    ("CREATE OR REPLACE DATABASE d", ["drop database d."]),
    # CREATE
    ("CREATE TABLE t (a INT)", ["create d.t"]),
    ("CREATE TABLE IF NOT EXISTS e.t LIKE x", ["create e.t?"]),
    ("create table t select 1 a", ["create d.t"]),
    ("CREATE OR REPLACE TABLE t (a INT)", ["create d.t!"]),
    ("CREATE OR REPLACE TABLE `t` (\n  `a` int(11) DEFAULT NULL\n)", ["create d.t!"]),
    ("CREATE TEMPORARY TABLE t (a INT)", []),
    ("CREATE OR REPLACE TEMPORARY TABLE t (a INT)", []),
    # not of tables
    ("CREATE INDEX i ON t (a)", []),
    ("CREATE OR REPLACE UNIQUE INDEX i ON t (a)", []),
    ("CREATE FULLTEXT INDEX i ON t (a)", []),
    ("DROP INDEX i ON t", []),
    ("DROP INDEX IF EXISTS i ON t", []),
    ("CREATE DATABASE d CHARACTER SET utf8mb4", []),
    ("ALTER DATABASE d CHARACTER SET latin1", []),
    ("CREATE OR REPLACE VIEW t AS SELECT 1", []),
    ("CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`%` SQL SECURITY DEFINER VIEW `v` AS SELECT 1", []),
    ("/*!50003 CREATE*/ /*!50020 DEFINER=`r`@`%`*/ /*!50003 TRIGGER x AFTER DELETE ON t FOR EACH ROW DO 1*/",
     []),
    ("CREATE DEFINER=`root`@`localhost` PROCEDURE p() BEGIN DROP TABLE t; END", []),
    ("DROP VIEW t", []),
    ("DROP TRIGGER x", []),
    ("DROP PROCEDURE p", []),
    ("CREATE SEQUENCE s", []),
    ("GRANT SELECT ON t TO u", []),
    ("CREATE USER u IDENTIFIED BY 'DROP TABLE t'", []),
    ("ANALYZE TABLE t", []),
    ("OPTIMIZE TABLE t", []),
    ("FLUSH TABLES", []),
    ("SET PASSWORD FOR u = 'x'", []),
    ("", []),
    ("# comment", []),
    (";", []),
]  # fmt: skip


def shown(effect: ddl.Effect) -> str:
    text = f"{effect.kind} {effect.table}" + (f" {effect.new_name}" if effect.new_name else "")
    return text + "?" * effect.conditional + "!" * effect.replaces


@pytest.mark.parametrize(("text", "wanted"), STATEMENTS, ids=[str(i) for i in range(len(STATEMENTS))])
def test_what_a_statement_does(text: str, wanted: list[str]) -> None:
    assert [shown(effect) for effect in effects(text, "d")] == wanted


@pytest.mark.parametrize(
    "text",
    [
        "REPAIR TABLE t",
        "FROBNICATE `t`",
        "DROP TABLE t AND SOMETHING",
        "DROP TABLE t PURGE",
        "RENAME TABLE t",
        "RENAME TABLE t TO",
        "TRUNCATE TABLE t, u",
        "ALTER TABLE t DROP",
        "ALTER TABLE t ADD (c INT",
        "ALTER TABLE t COMMENT 'no end",
        "ALTER TABLE t /* no end",
        "ALTER TABLE `t",
        "ALTER FANCY TABLE t ADD c INT",
        "CREATE FANCY TABLE t (a INT)",
        "ALTER DATABASE `#mysql50#t` UPGRADE DATA DIRECTORY NAME",
        r"ALTER TABLE x COMMENT 'a\', RENAME TO t # '",
    ],
)
def test_what_cannot_be_read_may_concern_every_name(text: str) -> None:
    actual = effects(text, "d")
    assert {effect.kind for effect in actual} == {ddl.UNKNOWN}
    assert (
        any(effect.concerns("d", "t") or effect.concerns("#mysql50#t", "") for effect in actual)
        or "#" in text
    )


def test_a_backslash_counts_either_way() -> None:
    """With NO_BACKSLASH_ESCAPES the string of the first statement has ended where otherwise it goes on."""
    assert [shown(e) for e in effects(r"ALTER TABLE t COMMENT 'c:\'", "d")] == ALTER_T
    assert [shown(e) for e in effects(r"ALTER TABLE t COMMENT 'it\'s'", "d")] == ALTER_T


def test_names_of_a_server_that_keeps_small_letters() -> None:
    actual = effects("RENAME TABLE Shop.Orders TO OLD", "Shop", lowercase=True)
    assert [shown(effect) for effect in actual] == ["rename shop.orders shop.old"]


INT = SourceColumn("a", "int", "int(11)", size=10)
TEXT = SourceColumn("b", "varchar", "varchar(20)", size=20, charset="utf8mb4")
KEY = SourceColumn("id", "bigint", "bigint(20)", nullable=False, size=19, in_key=True, extra="auto_increment")
OLD = SourceTable("d", "t", (KEY, INT, TEXT), ("id",))


def altered(*columns: SourceColumn) -> SourceTable:
    return replace(OLD, columns=columns)


def reason(text: str, *columns: SourceColumn, old: SourceTable = OLD) -> str:
    actual = effects(f"ALTER TABLE t {text}", "d")[0]
    return needs_read_again(actual, old, altered(*columns))


ADDED = SourceColumn("c", "int", "int(11)", size=10)


def test_columns_are_followed_by_their_names() -> None:
    (effect,) = effects("ALTER TABLE t RENAME COLUMN A TO b, CHANGE B `C` VARCHAR(20)", "d")
    new = altered(KEY, replace(INT, name="b"), replace(TEXT, name="C"))
    assert renamed_columns(effect, OLD, new) == {"a": "b", "b": "C"}
    assert needs_read_again(effect, OLD, new) == ""
    (back,) = effects("ALTER TABLE t RENAME COLUMN b TO a, RENAME COLUMN C TO b", "d")
    both = effect.then(back)
    assert renamed_columns(both, OLD, OLD) == {}
    (dropped,) = effects("ALTER TABLE t DROP a", "d")
    (added,) = effects("ALTER TABLE t ADD a INT", "d")
    assert "where the values" in needs_read_again(dropped.then(added), OLD, OLD)
    assert "where the values" in reason("DROP a, ADD a INT", KEY, INT, TEXT)
    assert reason("ADD COLUMN IF NOT EXISTS a INT", KEY, INT, TEXT) == ""
    (renamed,) = effects("ALTER TABLE t ADD x INT", "d")
    (again,) = effects("ALTER TABLE t RENAME COLUMN x TO c", "d")
    assert needs_read_again(renamed.then(again), OLD, altered(KEY, INT, TEXT, ADDED)) == ""


def test_values_that_come_without_images() -> None:
    assert reason("ADD c INT", KEY, INT, TEXT, ADDED) == ""
    assert reason("ADD (c INT NULL DEFAULT NULL)", KEY, INT, TEXT, ADDED) == ""
    assert "with values" in reason("ADD c INT DEFAULT 5", KEY, INT, TEXT, ADDED)
    assert "with values" in reason("ADD c INT", KEY, INT, TEXT, replace(ADDED, nullable=False))
    assert "with values" in reason("ADD c INT AS (a + 1)", KEY, INT, TEXT, ADDED)
    assert "where the values" in reason("COMMENT 'x'", KEY, INT, TEXT, ADDED)
    assert "primary key" in reason("DROP PRIMARY KEY", KEY, INT, TEXT, old=replace(OLD, primary_key=("a",)))
    assert "may remove rows" in reason("DROP PARTITION p0", KEY, INT, TEXT)
    assert "may change rows" in reason("ENGINE=BLACKHOLE", KEY, INT, TEXT)
    assert "may change rows" in reason("FROBNICATE", KEY, INT, TEXT)
    wide = replace(INT, kind="bigint", spelled="bigint(20)", size=19)
    (effect,) = effects("ALTER TABLE t MODIFY a SMALLINT", "d")
    (two,) = effects("ALTER TABLE t MODIFY a BIGINT", "d")
    assert needs_read_again(two, OLD, altered(KEY, wide, TEXT)) == ""
    assert "more than once" in needs_read_again(effect.then(two), OLD, altered(KEY, wide, TEXT))
    (unknown,) = [e for e in effects("REPAIR TABLE t", "d") if e.concerns("d", "t")]
    assert "not understood" in needs_read_again(unknown, OLD, OLD)
