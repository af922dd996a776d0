"""The messages of pgoutput as bytes: what of them becomes rows, and which."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tablestore.cdc.postgres.copy_rows import CopiedRows
from tablestore.cdc.postgres.pgoutput import Images, LogTable, PostgresLog
from tablestore.core.errors import Corrupt

TABLE = 7


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "big", signed=value < 0)


def begin(commit: int, seconds: int = 0) -> bytes:
    return b"B" + number(commit, 8) + number(seconds * 1_000_000, 8) + number(1)


def relation(*names: str, table: int = TABLE) -> bytes:
    columns = b"".join(b"\0" + name.encode() + b"\0" + number(25) + number(-1) for name in names)
    return b"R" + number(table) + b"public\0t\0d" + number(len(names), 2) + columns


def row(*values: str | None) -> bytes:
    """A row; "?" is a value that is unchanged."""
    parts = []
    for value in values:
        text = (value or "").encode()
        parts.append(b"n" if value is None else b"u" if value == "?" else b"t" + number(len(text)) + text)
    return number(len(values), 2) + b"".join(parts)


def change(kind: bytes, *rows: tuple[bytes, bytes], table: int = TABLE) -> bytes:
    return kind + number(table) + b"".join(tag + values for tag, values in rows)


def decoded(
    messages: list[bytes], start: int = 0, end: int = 1 << 40, block: int = 1 << 20
) -> list[tuple[Any, ...]]:
    """(kind, second after 2000, values) of all rows, of so many messages in a block."""
    decoder = PostgresLog(start, end, frozenset([TABLE]))
    rows = [bytes(6) + m for m in messages]
    blocks = (CopiedRows.of(rows[at : at + block]) for at in range(0, len(rows), block))
    return [row for images in decoder.images(blocks) for row in _rows(images)]


def _rows(images: Images) -> Iterator[tuple[Any, ...]]:
    slices = images.slices
    for r in range(slices.rows):
        values: list[Any] = []
        for c in range(len(images.relation.columns)):
            at, n = int(slices.offsets[c, r]), int(slices.lengths[c, r])
            values.append(
                {-1: None, -2: "?"}.get(n, bytes(slices.data[at : at + n]).decode() if n >= 0 else "")
            )
        yield int(images.kinds[r]), int(images.seconds[r]) - 946_684_800, tuple(values)


def test_each_kind_of_change_becomes_its_rows() -> None:
    messages = [
        begin(10, 5),
        relation("id", "long"),
        change(b"I", (b"N", row("1", "äx"))),
        change(b"U", (b"N", row("1", "?"))),
        change(b"U", (b"K", row("1", None)), (b"N", row("2", "?"))),
        change(b"U", (b"O", row("2", "whole")), (b"N", row("2", "?"))),
        change(b"D", (b"K", row("2", None))),
        change(b"D", (b"O", row("3", ""))),
        change(b"I", (b"N", row("9", "of another")), table=8),
        b"C" + bytes(25),
    ]
    assert decoded(messages) == [
        (0, 5, ("1", "äx")),
        (2, 5, ("1", "?")),
        (3, 5, ("1", None)),
        (0, 5, ("2", "?")),
        (1, 5, ("2", "whole")),
        (2, 5, ("2", "whole")),
        (3, 5, ("2", None)),
        (3, 5, ("3", "")),
    ]


def test_a_transaction_counts_from_its_commit_on_and_not_at_the_end() -> None:
    messages = [relation("id")]
    for commit in (9, 10, 19, 20):
        messages += [begin(commit), change(b"I", (b"N", row(str(commit))))]
    assert [values for *_, values in decoded(messages, 10, 20)] == [("10",), ("19",)]


def test_blocks_and_shapes_change_nothing(seeds: tuple[int, ...]) -> None:
    """However the messages lie in blocks, and however often a relation comes again, rows are the same."""
    for seed in seeds:
        r = random.Random(seed)
        messages, wanted, names = [begin(5), relation("a")], [], ["a"]
        for i in range(r.randint(1, 60)):
            if r.random() < 0.2:
                names = ["a", "b", "c"][: r.randint(1, 3)]
                messages.append(relation(*names))
            if r.random() < 0.2:
                messages += [b"C" + bytes(25), begin(5, i)]
            values = [r.choice([None, "", "x" * r.randint(0, 9), "é"]) for _ in names]
            messages.append(change(b"I", (b"N", row(*values))))
            wanted.append(tuple(values))
        rows = decoded(messages, block=r.choice([1, 7, 1 << 20]))
        assert [values for *_, values in rows] == wanted, seed


def test_a_message_that_does_not_lie_as_its_relation_is_an_error() -> None:
    for bad in (row("1", "2"), number(1, 2) + b"z"):
        with pytest.raises(Corrupt, match="table 7"):
            decoded([begin(1), relation("id"), change(b"I", (b"N", bad))])


def test_a_relation_has_names_types_and_modifiers() -> None:
    assert LogTable.parse(relation("id", "ä")) == LogTable(TABLE, (("id", 25, -1), ("ä", 25, -1)))
