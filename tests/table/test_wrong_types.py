"""Each parameter of the public face with values it does not take: it works, or the error is one of ours.

Verbs and parameters are found by their signatures, so a new one is covered. What is given beside the wrong
value is right, so that the wrong one is met.
"""

from __future__ import annotations

import datetime
import inspect
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tablestore as ts
import widgets
from tablestore.core.errors import Corrupt, InvalidRequest, TablestoreError, Unavailable

ROWS = {"k": [1], "p": ["a"], "v": [2]}
WRONG: dict[str, Any] = {
    "None": None,
    "object": object(),
    "negative": -1,
    "huge": 1 << 70,
    "float": 1.5,
    "nan": math.nan,
    "text": "nonsense",
    "empty text": "",
    "surrogate": "\ud800",
    "NUL": "a\0b",
    "long text": "é" * 200,
    "bytes": b"\xff",
    "list": [1],
    "list of object": [object()],
    "list of surrogates": ["\ud800"],
    "dict": {1: 2},
    "dict of text": {"nonsense": object()},
    "dict of a column": {"v": object()},
    "surrogates": {"k\ud800": "\ud800"},
    "True": True,
    "type": int,
    "function": lambda *_: 1 / 0,
    "time": pd.Timestamp("2026-01-01"),
    "date": datetime.date(2026, 1, 1),
    "frame": pd.DataFrame({"k": [1]}),
    "array": pa.array([1]),
}
RIGHT: dict[str, Any] = {
    "name": "w",
    "new_name": "d.w",
    "schema": {"k": ts.BIGINT},
    "key": {"k": 1, "p": "a"},
    "keys": [{"k": 1, "p": "a"}],
    "data": ROWS,
    "rows": ROWS,
    "columns": ["k"],
    "where": ts.col("k") == 1,
    "what": ts.col("k") == 99,
    "values": {"v": 3},
    "options": {"num-levels": 4},
    "since": 1,
    "partition": {"p": "a"},
    "bucket": 1,
    "tag": "kept",
    "to": "other",
    "user": "u",
    "messages": [],
    "next_snapshot": 1,
    "keep": 1,
    "snapshot": 1,
    "before": 1,
    "older_than": "1 d",
}
LEFT_OUT: set[Any] = {"self", "cls", ("what_if", "progress"), ("compact", "progress")}
GIVEN = {"Scan", "Table", "starting"}  # made by verbs, not by hand
CASES = 60  # a seed


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    return made(tmp_path)


def made(folder: Path) -> ts.Table:
    t = ts.connect(folder / "lake").create_table(
        "d.t",
        schema={"k": ts.BIGINT, "p": ts.STRING, "v": ts.INT},
        primary_key=["k", "p"],
        partition_by=["p"],
    )
    t.write(ROWS)
    t.tags.create("kept")
    return t


def faces(t: ts.Table) -> dict[str, Any]:
    """What is called: things that have verbs."""
    lake = ts.connect(Path(t.location).parent.parent)
    faces: dict[str, Any] = {"ts": ts, "Lake": lake, "Table": t, "Scan": t.scan(), "Inspect": t.inspect}
    return faces | {"Tags": t.tags, "Branches": t.branches, "Consumers": t.consumers, "col": ts.col("k")}


def verbs(face: Any) -> Iterator[str]:
    """Public verbs of a thing, in order."""
    for name in getattr(face, "__all__", dir(type(face))):
        if name.startswith("_") or name in GIVEN or isinstance(getattr(type(face), name, None), property):
            continue
        what = getattr(face, name)
        if callable(what) and not (inspect.isclass(what) and issubclass(what, Exception)):
            yield name


def cases(t: ts.Table) -> list[tuple[str, str, str, str]]:
    """Face, verb, parameter and the name of the wrong value, of all."""
    collected = []
    for face, thing in faces(t).items():
        for verb in verbs(thing):
            names = inspect.signature(getattr(thing, verb)).parameters
            collected += [(face, verb, n, w) for n in names for w in WRONG if (verb, n) not in LEFT_OUT]
    return [case for case in collected if case[2] not in LEFT_OUT]


def test_no_wrong_argument_is_met_inside(table: ts.Table, seeds: tuple[int, ...]) -> None:
    every = cases(table)
    assert len(every) > 10_000
    for seed in seeds:
        assert met_inside(table, random.Random(seed).sample(every, CASES)) == []


@pytest.mark.large
def test_none_of_all_wrong_arguments_is_met_inside(table: ts.Table) -> None:
    assert met_inside(table, cases(table)) == []


def met_inside(table: ts.Table, cases: Iterable[tuple[str, str, str, str]]) -> list[str]:
    """What raises anything but an error of ours, or one that blames the store or its files."""
    faults = []
    for number, (face, verb, name, wrong) in enumerate(cases):
        try:
            call(getattr(faces(table)[face], verb), name, WRONG[wrong])
        except Exception as error:
            if not is_expected(error, name, wrong):
                faults.append(f"{face}.{verb}({name}={wrong}): {error!r}")
        if not (Path(table.location) / "schema" / "schema-0").exists():
            table = made(Path(table.location).parents[2] / str(number))
    return faults


def is_expected(error: Exception, name: str, wrong: str) -> bool:
    """Whether that is an answer to a wrong argument."""
    if isinstance(error, (Unavailable, Corrupt)):
        return False
    if isinstance(error, (TablestoreError, ZeroDivisionError)):
        return True  # ours, or what the given function raises
    if wrong == "type" and name in ("change", "inserts"):
        return True  # a class can be called: what it raises is its own
    return type(error) is TypeError and "keyword" in str(error)  # Python's own words


def call(verb: Callable[..., Any], varied: str, wrong: Any) -> None:
    """Call with one wrong argument, all else that is needed being right; what is lazy is read."""
    given, named = [], dict[str, Any]()
    for name, p in inspect.signature(verb).parameters.items():
        if name != varied and (p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)):
            continue
        value = wrong if name == varied else RIGHT.get(name)
        if p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY):
            given.append(value)
        elif p.kind is p.VAR_KEYWORD:
            named |= value if isinstance(value, dict) else {"nonsense": value}
        else:
            named[name] = value
    actual = verb(*given, **named)
    if inspect.isgenerator(actual):
        next(actual, None)
    if isinstance(actual, ts.Scan):
        actual.to_arrow()
    if verb.__name__ == "maintain":
        assert actual.stop(120)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda t: t.expire_snapshots(dry_run="no"), "dry_run 'no' must be True or False"),
        (lambda t: t.compact(full=1.5), "full 1.5 must be True or False"),
        (lambda t: t.compact(progress="x"), "progress 'x' must be a function"),
        (lambda t: t.rollback(snapshot="1"), "snapshot '1' must be a whole number"),
        (lambda t: t.rescale(1 << 70), "must be a whole number of 32 bits"),
        (lambda t: t.write(ROWS, user="\ud800"), "half of a character"),
        (lambda t: t.tags.create("é" * 101), "up to 200 bytes"),
        (lambda t: t.tags.create("a\0b"), "cannot be used"),
        (lambda t: t.branch([1]), "name [1] must be text"),
        (lambda t: ts.add(None, ts.INT), "name None must be text"),
        (lambda t: ts.set_options(5), "options 5 must be a mapping"),
        (lambda t: ts.DECIMAL("x", 2), "p 'x' must be a whole number"),
        (lambda t: ts.open("a\0b"), "no file system takes the location"),
        (lambda t: ts.connect("x" * 300), "no file system takes the location"),
        (lambda t: ts.connect("\ud800"), "half of a character"),
        (lambda t: t.at(timestamp=pd.NaT), "no moment"),
        (lambda t: t.options.describe(set_only=pd.DataFrame({"k": [1]})), "must be True or False"),
        (lambda t: ts.open(t.location, io="x"), "io 'x' must be a FileIO"),
        (lambda t: ts.mend(t.location, io="x"), "io 'x' must be a FileIO"),
        (lambda t: ts.connect(t.location, env="x"), "env 'x' must be an Env"),
        (
            lambda t: ts.connect(t.location + "2").sql("SELECT ?", 5),
            "list of values or a mapping",
        ),
        (lambda t: ts.connect("s3://b/p", **{"s3.endpoint": 5}), "'s3.endpoint' is '5'"),
        (lambda t: t.inspect.merging(between="x"), "two places of the key axis"),
        (lambda t: ts.connect(t.location + "2").create_table("x", schema={"v": ts.TIME}), "column 'v'"),
    ],
)
def test_what_the_error_says(table: ts.Table, wrong: Callable[[ts.Table], Any], text: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(text)):
        wrong(table)
    assert table.refresh().store.snapshots.ids() == [1]


def test_a_timestamp_of_pandas_is_a_moment(table: ts.Table) -> None:
    later = pd.Timestamp.now() + pd.Timedelta("1 min")
    assert table.at(timestamp=later).scan().count() == 1
    assert table.at(timestamp=later.tz_localize(datetime.UTC) + pd.Timedelta("1 d")).scan().count() == 1


def test_partition_values_too_long_for_a_file_system(table: ts.Table) -> None:
    for value in ("x" * 254, "é" * 130, "%" * 90, "\0" * 90):
        with pytest.raises(InvalidRequest, match="as the name of a directory"):
            table.write({"k": [2], "p": [value], "v": [1]})
    table.write({"k": [2], "p": ["x" * 253], "v": [1]})
    assert table.check() == []
    assert table.scan().count() == 2


def test_a_path_is_no_table_of_a_workbench() -> None:
    with pytest.raises(InvalidRequest, match="open it first"):
        widgets.Workbench("/path")
