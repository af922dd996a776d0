"""Messages that others wrote into the topic of a table: each is its row, or one error by name."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.errors import SchemaMismatch, TablestoreError
from tablestore.format.messages import json_text
from tablestore.format.messages.messages import Messages
from tablestore.log.kafka.row_format import JsonEventRows, JsonRows, RowFormat, ValueFormat
from tablestore.log.kafka.transactions import TransactionMark
from tablestore.log.log import CommitMark
from tests.cdc.formats.messages_of import columns

FREE = columns(k="BIGINT", t="STRING", l="ARRAY<INT>", r="ROW<a INT, b ARRAY<ROW<x INT>>>", d="DECIMAL(9, 2)")
"""Columns that all allow NULL: nothing of a message must be there."""
EMPTY = dict.fromkeys("ktlrd")
NO_ROW = [
    b"", b"x",
    b"null", b"5", b"true", b'"x"', b"[]", b'[{"k":1}]', b'{"k":1} {"k":2}', b'{"k":1}\0', b"\xff{}",
    b'{"k":1.5}', b'{"k":true}', b'{"k":[1]}', b'{"k":{}}', b'{"k":9223372036854775808}', b'{"k":"x"}',
    b'{"l":5}', b'{"l":"x"}', b'{"l":{"0":1}}', b'{"l":[1.5]}', b'{"l":[[1]]}', b'{"r":5}', b'{"r":[1]}',
    b'{"r":{"b":1}}', b'{"r":{"b":[1]}}', b'{"r":{"b":[{"x":1},[2]]}}',
    b'{"d":"x"}', b'{"d":1.234}', b'{"d":1e9}',
    b'{"t":"\xff"}', b'{"t":"\\ud800"}', b"[" * 50_000,
]  # fmt: skip
NO_EVENT = [
    b'{"op":"c"}', b'{"op":"c","after":null}', b'{"op":"c","after":5}', b'{"op":"c","after":"{}"}',
    b'{"op":"r","before":{"k":1}}', b'{"op":"d"}', b'{"op":"d","after":{"k":1}}', b'{"op":"d","before":[]}',
    b'{"op":"u","before":{"k":1},"after":{"k":2}}', b'{"op":null,"after":{"k":1}}', b'{"after":{"k":1}}',
    b'{"op":"C","after":{"k":1}}', b'{"op":["c"],"after":{"k":1}}', b'{"payload":{"op":"c","after":{"k":1}}}',
    b'{"op":"c","after":{"k":1},"kind":"-D"}', b'{"op":"c","after":{"k":1},"kind":"-U"}',
    b'{"op":"d","before":{"k":1},"kind":"+I"}', b'{"op":"d","before":{"k":1},"kind":"+U"}',
    b'{"op":"c","after":{"k":1},"kind":"x"}', b'{"op":"c","after":{"k":1},"kind":5}',
]  # fmt: skip


def rows(format: ValueFormat, *values: bytes | None, names: str = "ktlrd", keys: Any = None) -> list[Any]:
    """The rows of messages."""
    actual = RowFormat(FREE, (), False, format) if keys is None else RowFormat(FREE, ("k",), True, format)
    given = pa.nulls(len(values), pa.binary()) if keys is None else pa.array(keys, pa.binary())
    messages = Messages("t", 0, np.arange(len(values)), given, pa.array(values, pa.binary()))
    changes = actual.decode(messages, list(names))
    assert changes.num_rows == len(values)
    return changes.rows.to_pylist()


@pytest.mark.parametrize("value", NO_ROW, ids=lambda v: repr(v[:40]))
def test_what_is_no_row_of_the_table_is_an_error(value: bytes) -> None:
    with pytest.raises(SchemaMismatch):
        rows(JsonRows(FREE), b'{"k":1}', value)
    for side, op in (("after", "c"), ("before", "d")):
        with pytest.raises(SchemaMismatch):
            rows(JsonEventRows(FREE), b'{"op":"%b","%b":%b}' % (op.encode(), side.encode(), value))


@pytest.mark.parametrize("names", ["ktlrd", "t", "l"])
@pytest.mark.parametrize("value", NO_EVENT, ids=lambda v: repr(v[:60]))
def test_what_is_no_event_is_an_error_whichever_columns_are_read(value: bytes, names: str) -> None:
    with pytest.raises(SchemaMismatch):
        rows(JsonEventRows(FREE), b'{"op":"c","after":{"k":1}}', value, names=names)


@pytest.mark.parametrize("key", [b"", b"x", b"null", b"5", b"[1]", b'"x"', b'{"k":"x"}', b'{"k":1.5}'])
def test_a_delete_whose_key_is_none_is_an_error(key: bytes) -> None:
    with pytest.raises(SchemaMismatch):
        rows(JsonRows(FREE), None, keys=[key])


def test_what_is_absent_or_null_is_null() -> None:
    nulls = [b"{}", b'{"k":null,"l":null,"r":null}', b'{"other":5}']
    assert rows(JsonRows(FREE), *nulls) == [EMPTY] * 3
    assert (
        rows(JsonEventRows(FREE), *(b'{"op":"c","before":null,"after":%b}' % v for v in nulls)) == [EMPTY] * 3
    )
    nested = b'{"r":{"a":null,"b":[null,{},{"x":3}]},"l":[]}'
    assert rows(JsonRows(FREE), nested) == [
        {**EMPTY, "r": {"a": None, "b": [None, {"x": None}, {"x": 3}]}, "l": []}
    ]


def test_messages_with_some_bytes_changed_are_their_rows_or_errors(seeds: tuple[int, ...]) -> None:
    """Held against Python's reader of JSON."""
    original = b'{"k":12,"t":"ab\xc3\xbc","l":[1,2,null],"r":{"a":5,"b":[{"x":1}]},"d":3.25}'
    for seed in seeds:
        rng = random.Random(seed)
        for _ in range(300):
            value = changed(original, rng)
            try:
                [actual] = rows(JsonRows(FREE), value)
            except TablestoreError:
                continue
            asked = json.loads(
                value.replace(b",}", b"}").replace(b",]", b"]"), object_pairs_hook=first_of_each
            )
            assert same(actual["k"], asked.get("k")), value
            assert same(actual["t"], asked.get("t")), value
            assert same(actual["d"], asked.get("d")), value
            assert [str(v) for v in actual["l"] or ()] == [str(v) for v in asked.get("l") or ()], value
            assert (actual["r"] is None) == (asked.get("r") is None), value


def changed(value: bytes, rng: random.Random) -> bytes:
    actual = bytearray(value)
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(actual))
        match rng.randrange(4):
            case 0:
                actual[at] ^= 1 << rng.randrange(8)
            case 1:
                del actual[at : at + rng.randint(1, 4)]
            case 2:
                actual[at:at] = bytes([rng.choice(b'{}[]",:019ntfe.- \\\x00\xff')])
            case 3:
                actual[at:at] = actual[at : at + rng.randint(1, 5)]
    return bytes(actual)


def first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def same(actual: Any, asked: Any) -> bool:
    if actual is None or asked is None:
        return actual is asked
    if isinstance(actual, str):
        return actual == asked if isinstance(asked, str) else True  # the JSON of what is no text
    return Decimal(str(actual)) == Decimal(str(asked))


def test_a_message_is_looked_at_again_only_where_something_may_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    run = json_text.run

    def counted(query: str, texts: pa.Array) -> pa.Array:
        asked.append(len(texts))
        return run(query, texts)

    monkeypatch.setattr(json_text, "run", counted)
    events = [b'{"op":"c","before":null,"after":{"k":%d,"l":[1],"r":{"a":1,"b":[]}}}' % i for i in range(9)]
    rows(JsonEventRows(FREE), *events, b'{"op":"c","after":{"l":null}}')
    assert asked == [10, 1]


MARK = TransactionMark("id", 7, 5, {0: 2}, CommitMark("user", 3))
NO_VALUES: list[Any] = [None, [], {"x": 1}, "x"]
NO_ROWS: list[tuple[str, Any]] = [("x", 1), ("-1", 1), *(("0", n) for n in ("1", -1, 0, 1.5, None, True))]
NO_COMMITS: list[dict[str, Any]] = [
    *[{"user": None}, {"identifier": "1"}, {"identifier": True}, {"position": 5}, {"properties": []}],
    *[{"properties": {"a": 1}}, {"watermark": "x"}, {"other": 1}],
]
WRONG: list[dict[str, Any]] = [
    *({name: value} for name in ("order", "time", "rows", "mark") for value in NO_VALUES),
    *({"id": value} for value in NO_VALUES[:3]),
    *({"rows": {bucket: count}} for bucket, count in NO_ROWS),
    *({"mark": {"user": "u", "identifier": 1} | more} for more in NO_COMMITS),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_mark_that_is_none_is_an_error(wrong: dict[str, Any]) -> None:
    body = json.loads(MARK.encode())
    assert TransactionMark.decode(json.dumps(body).encode()) == MARK
    with pytest.raises(SchemaMismatch, match="tablestore-commit"):
        TransactionMark.decode(json.dumps(body | wrong).encode())


@pytest.mark.parametrize(
    "value", [b"", b"x", b"\xff", b"null", b"[]", b"{}", b"5", b"[" * 50_000, None, "{}"]
)
def test_a_header_that_is_no_mark_is_an_error(value: Any) -> None:
    with pytest.raises(SchemaMismatch, match="tablestore-commit"):
        TransactionMark.decode(value)
