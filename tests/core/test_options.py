"""Options: names and defaults of Paimon, old names, near misses, values that are refused."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption
from tablestore.core.options import environment
from tablestore.core.options.names import ALIASES, ENGINE_NAMES
from tablestore.core.options.rules import describe, fate, names, require_known
from tablestore.core.options.table_options import (
    TableOptions,
    as_text,
    current_names,
    duration_ms,
    memory_size,
)

TABLE = Path(__file__).parents[1] / "golden" / "options" / "paimon-options.tsv"
LISTED = {k: (d, t) for k, d, t in (line.split("\t") for line in TABLE.read_text().splitlines())}
BY_KEY = {f.metadata["key"]: f for f in fields(TableOptions)}
# Known to Paimon 2.0.0, though its own list leaves them out; from the fourth on those of its Flink connector.
UNLISTED = {"scan.version", "scan.remove-normalize"}
UNLISTED |= {"lookup.cache", "lookup.async", "lookup.async-thread-number", "lookup.refresh.async"}
UNLISTED |= {"lookup.refresh.async.pending-snapshot-count", "lookup.refresh.full-load-threshold"}
FLINKS_OWN = {"lookup.partial-cache.expire-after-write", "lookup.partial-cache.expire-after-access"}
OF_LOGS = {"log.system": "none", "log.consistency": "transactional", "log.changelog-mode": "auto"}
OF_LOGS |= {"log.format": "debezium-json", "log.key.format": "json", "log.retention": None}
OF_LOGS |= {"kafka.bootstrap.servers": None, "kafka.topic": None}  # of the Flink Table Store
OF_LOGS |= {f"debezium-avro-confluent.{name}": None for name in ("url", "subject", "basic-auth.user-info")}
DIFFERENT_IN_2_0_0 = {"postpone.default-bucket-num": 1, "postpone.target-size-per-bucket": None}


def listed_default(key: str) -> Any:
    if key in DIFFERENT_IN_2_0_0:
        return DIFFERENT_IN_2_0_0[key]
    text = LISTED[key][0].strip('"')
    if text == "(none)":
        return None
    return BY_KEY[key].metadata["parse"](text)


def test_names_and_defaults_are_those_of_paimon() -> None:
    for key, field in BY_KEY.items():
        ours = getattr(TableOptions(), field.name)
        if key in UNLISTED | FLINKS_OWN or key.startswith("tablestore."):
            assert key not in LISTED
        elif key in OF_LOGS:
            assert (key, key not in LISTED, ours) == (key, True, OF_LOGS[key])
        else:
            assert ours == listed_default(key) or (not ours and not listed_default(key)), key


def test_every_name_of_paimon_is_known() -> None:
    assert all(fate(name) is not None for name in LISTED)
    require_known(dict.fromkeys(LISTED, ""))


def test_no_two_fields_share_a_key() -> None:
    keys = [key for f in fields(TableOptions) for key in (f.metadata["key"], *f.metadata["aliases"])]
    assert len(keys) == len(set(keys))
    assert len(describe()) == len({fact.name for fact in describe()})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"log.scan": "full"}, {"scan.mode": "full"}),
        ({"log.scan": "full", "scan.mode": "latest"}, {"scan.mode": "latest"}),
        ({"log.scan.timestamp-millis": "5"}, {"scan.timestamp-millis": "5"}),
        ({"table-storage.bucket": "4"}, {"bucket": "4"}),
        ({"table-storage.bucket": "4", "bucket": "2"}, {"bucket": "2"}),
        ({"table-storage.file.format": "orc"}, {"file.format": "orc"}),
        ({"table-storage.log.scan.startup.mode": "latest-offset"}, {"scan.mode": "latest"}),
        ({"universal_sort_run_num_compaction_trigger": "7"}, {"num-sorted-run.compaction-trigger": "7"}),
        ({"level0_file_num_compaction_trigger": "7"}, {"num-sorted-run.compaction-trigger": "7"}),
        ({"universal_size_ratio": "1 %"}, {"compaction.size-ratio": "1"}),
        ({"compaction.max-sorted-run-num": "8"}, {"sort-spill-threshold": "8"}),
        (
            {"max_bytes_for_level_base": "1 gb"},
            {"tablestore.compaction.leveled.max-bytes-for-level-base": "1 gb"},
        ),
        ({"kafka.topic": "t", "log.format": "json"}, {"kafka.topic": "t", "log.format": "json"}),
        ({"table-storage.log.properties.bootstrap.servers": "h:1"}, {"kafka.bootstrap.servers": "h:1"}),
        ({"table-storage.log.properties.acks": "1", "kafka.acks": "all"}, {"kafka.acks": "all"}),
        ({"table-storage.log.consistency": "eventual"}, {"log.consistency": "eventual"}),
        ({"table-storage.log.retention": "1 d"}, {"log.retention": "1 d"}),
    ],
)
def test_old_names_become_current_ones_and_current_ones_win(old: dict, new: dict) -> None:
    assert current_names(old, keyed=True) == new
    require_known(old)


def test_old_names_lead_to_known_ones() -> None:
    assert {new for new, _ in ALIASES.values()} <= names()


def test_an_append_only_table_has_no_primary_key() -> None:
    with pytest.raises(InvalidOption, match="primary key"):
        current_names({"write-mode": "append-only"}, keyed=True)
    assert current_names({"write-mode": "append-only"}, keyed=False) == {"write-mode": "append-only"}
    with pytest.raises(InvalidOption, match="change-log"):
        current_names({"write-mode": "append"}, keyed=False)


def test_fallback_keys_are_read_and_the_current_one_wins() -> None:
    assert TableOptions.parse({"write.compaction-skip": "true"}).write_only
    assert not TableOptions.parse({"write.compaction-skip": "true", "write-only": "false"}).write_only
    assert TableOptions.parse({"partial-update.ignore-delete": "TRUE"}).ignore_delete


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("bucket", "many", "whole number"),
        ("write-only", "yes", "true or false"),
        ("merge-engine", "dedupe", "partial-update"),
        ("target-file-size", "128 miles", "128 mb"),
        ("snapshot.time-retained", "1 moon", "10 min"),
        ("sequence.field.sort-order", "up", "descending"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(key: str, value: str, allowed: str) -> None:
    with pytest.raises(InvalidOption, match=allowed) as e:
        TableOptions.parse({key: value})
    assert key in str(e.value)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (memory_size, "128 mb", 128 << 20),
        (memory_size, "1024", 1024),
        (memory_size, "2kibibytes", 2048),
        (memory_size, "1 T", 1 << 40),
        (duration_ms, "1 h", 3_600_000),
        (duration_ms, "500", 500),
        (duration_ms, "10MIN", 600_000),
        (duration_ms, "2500 µs", 2),
        (duration_ms, "30 secs", 30_000),
    ],
)
def test_units_of_sizes_and_durations(parse: Any, text: str, value: int) -> None:
    assert parse(text) == value


def test_near_misses_are_named_wherever_options_are_given(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    with pytest.raises(InvalidOption, match="merge-engine"):
        lake.create_table("d.t", schema={"k": ts.INT}, primary_key=["k"], options={"merge-engin": "x"})
    t = lake.create_table("d.t", schema={"k": ts.INT}, primary_key=["k"], options={"my.own": 1})
    assert t.options["my.own"] == "1"
    with pytest.raises(InvalidOption, match=r"scan\.mode"):
        t.with_options({"scan.mod": "latest"})


def test_names_that_start_as_ours_do_must_be_ours(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))

    def make(key: str) -> None:
        lake.create_table("d.u", schema={"k": ts.INT}, primary_key=["k"], options={key: "leveled"})

    with pytest.raises(InvalidOption, match=r"did you mean 'tablestore\.compaction\.strategy'"):
        make("tablestore.compaction.strategi")
    with pytest.raises(InvalidOption, match=r"level0-file-num-trigger'"):
        make("tablestore.compaction.leveled.level0-trigger")
    with pytest.raises(
        InvalidOption, match=r"there are tablestore\.cdc\.columns, tablestore\.change-tracking"
    ):
        make("tablestore.zzz")
    t = lake.create_table("d.t", schema={"k": ts.INT}, primary_key=["k"], options={"bucket": 1})
    table = lake.create_table("d.v", schema=t.schema, primary_key=["k"], options=t.options)
    assert table.options.keys() == t.options.keys()


@pytest.mark.parametrize("options", [{"num-sorted-run.compaction-trigger": 0}, {"num-levels": 1}])
def test_trees_that_cannot_be_compacted_are_refused_by_name(tmp_path: Path, options: dict) -> None:
    lake = ts.connect(str(tmp_path))
    with pytest.raises(InvalidOption, match=f"{next(iter(options))}' is .; it must be at least"):
        lake.create_table("d.u", schema={"k": ts.INT}, primary_key=["k"], options=options)
    t = lake.create_table("d.t", schema={"k": ts.INT}, primary_key=["k"])
    with pytest.raises(InvalidOption, match=next(iter(options))):
        t.what_if(options)


def test_the_options_of_ours_are_listed_with_their_defaults() -> None:
    page = (Path(__file__).parents[2] / "tablestore" / "OPTIONS.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(tablestore\.[a-z0-9.-]+)` \| ([^|]*) \|", page, flags=re.M)
    typed = {key for key in BY_KEY if key.startswith("tablestore.")}
    assert {k for k, _ in listed} - set(ENGINE_NAMES) == typed
    parsed = {
        k: BY_KEY[k].metadata["parse"](d.strip()) if d.strip() else None for k, d in listed if k in typed
    }
    assert parsed == {k: getattr(TableOptions(), BY_KEY[k].name) for k in typed}


def test_tables_made_with_old_names_store_the_current_ones(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    options = {"table-storage.bucket": 3, "write-mode": "change-log", "log.scan": "latest"}
    t = lake.create_table("d.t", schema={"k": ts.INT}, primary_key=["k"], options=options)
    stored = {k: v for k, v in t.options.items() if not k.startswith("tablestore.")}
    assert stored == {"bucket": "3", "write-mode": "change-log", "scan.mode": "latest"}


def test_values_are_stored_as_text() -> None:
    assert as_text({"a": True, "b": 3, "c": "x"}) == {"a": "true", "b": "3", "c": "x"}


def test_keys_may_be_given_as_options_as_in_other_engines(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    columns = {"k": ts.INT, "dt": ts.STRING}
    options = {"primary-key": "k, dt", "partition": "dt"}
    t = lake.create_table("d.t", schema=columns, options=options)
    assert (t.primary_key, t.partition_by, t.options["bucket"]) == (("k", "dt"), ("dt",), "1")
    assert not {"primary-key", "partition"} & set(t.options)
    with pytest.raises(InvalidOption, match="primary-key"):
        lake.create_table("d.u", schema=columns, primary_key=["k"], options={"primary-key": "dt"})


def test_a_whole_number_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    name = "TABLESTORE_SOME_NUMBER"
    monkeypatch.setenv(name, "20000")
    assert environment.whole_number(name, 700, least=100) == 20_000
    for wrong in ("99", "-1", "many", ""):
        monkeypatch.setenv(name, wrong)
        with pytest.raises(ts.InvalidOption, match=f"{name}={wrong!r} must be a whole number, 100 or more"):
            environment.whole_number(name, 700, least=100)
    monkeypatch.delenv(name)
    assert environment.whole_number(name, 700, least=100) == 700
