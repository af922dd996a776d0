"""The messages of a COPY as bytes of a socket: rows are the same however the bytes arrive."""

from __future__ import annotations

import random
import socket
import threading
from itertools import pairwise

import pytest

from tablestore.cdc.postgres import copy_rows
from tablestore.cdc.postgres.copy_rows import CopiedRows, cut

END = b"Z\0\0\0\5I"
ERROR = b"SERROR\0C22012\0Mdivision by \xc3\xa4\0\0"


def message(code: bytes, body: bytes) -> bytes:
    return code + (len(body) + 4).to_bytes(4, "big") + body


def received(parts: list[bytes]) -> tuple[list[bytes], dict[bytes, str]]:
    """(lines, fields of the error) of what is sent part by part, until the other end closes."""
    here, there = socket.socketpair()

    def send() -> None:
        with there:
            for part in parts:
                there.sendall(part)

    sender = threading.Thread(target=send)
    sender.start()
    blocks = copy_rows._received(here, 1)
    lines: list[bytes] = []
    try:
        while True:
            lines += lines_of(next(blocks))
    except StopIteration as end:
        return lines, dict(end.value)
    finally:
        here.close()
        sender.join()


def lines_of(rows: CopiedRows) -> list[bytes]:
    """The lines of rows; between them is nothing."""
    data = rows.data[: rows.end].tobytes()
    lines = [data[at : data.index(b"\n", at) + 1] for at in rows.starts]
    assert data.replace(b"\0", b"") == b"".join(lines)
    return lines


@pytest.mark.parametrize("engine", ["numba", "python"])
def test_rows_are_the_same_however_they_arrive(
    monkeypatch: pytest.MonkeyPatch, engine: str, seeds: tuple[int, ...]
) -> None:
    """Lengths of messages have TAB, LF and backslash among their bytes; other messages come between."""
    if engine == "python":
        monkeypatch.setattr(copy_rows, "compiled", lambda loop: loop)
    for seed in seeds:
        r = random.Random(seed)
        lines = [b"x" * r.choice([0, 4, 5, 9, 87, 2309, r.randint(0, 5_000)]) + b"\n" for _ in range(40)]
        messages = [message(b"H", b"\0\0\0"), *(message(b"d", line) for line in lines)]
        for _ in range(3):
            messages.insert(r.randint(1, len(messages)), message(b"N", b"a\tnotice\n\\\0"))
        failed = r.random() < 0.5
        data = b"".join(messages) + (message(b"E", ERROR) if failed else b"") + END
        cuts = sorted({0, len(data), *(r.randint(0, len(data)) for _ in range(20))})
        monkeypatch.setattr(copy_rows, "_BLOCK_BYTES", r.choice([64, 1_000, 1 << 20]))
        error = {b"S": "ERROR", b"C": "22012", b"M": "division by ä"} if failed else {}
        assert received([data[a:b] for a, b in pairwise(cuts)]) == (lines, error), seed


def test_an_end_without_a_word_is_an_error_and_one_after_an_error_is_that() -> None:
    with pytest.raises(ConnectionError):
        received([message(b"d", b"1\n")])
    assert received([message(b"d", b"1\n"), message(b"E", ERROR)])[1][b"C"] == "22012"


ESCAPED = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
CHARACTERS = ("\\", "N", "n", "\b", "\f", "\n", "\r", "\t", "\v", "\x01", "ä", "€", "x")


def line(values: list[str | None]) -> bytes:
    """As the server writes a row."""
    texts = ["\\N" if v is None else "".join(ESCAPED.get(c, c) for c in v) for v in values]
    return "\t".join(texts).encode() + b"\n"


def drawn(r: random.Random) -> str | None:
    return None if r.random() < 0.2 else "".join(r.choices(CHARACTERS, k=r.randint(0, 6)))


def values(lines: list[bytes], columns: int) -> list[list[str | None]]:
    slices = cut(CopiedRows.of(lines), columns)
    texts = [
        [None if v is None else v.decode() for v in slices.binary(c).to_pylist()] for c in range(columns)
    ]
    return [list(row) for row in zip(*texts, strict=True)] if columns else [[]] * slices.rows


def test_values_are_those_that_were_copied(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        r = random.Random(seed)
        for columns in (1, 2, 5):
            rows = [[drawn(r) for _ in range(columns)] for _ in range(200)]
            assert values([line(row) for row in rows], columns) == rows


def test_a_text_that_looks_like_null_is_a_text() -> None:
    assert values([line([None, "\\N"]), line(["\\", "N"])], 2) == [[None, "\\N"], ["\\", "N"]]


def test_rows_without_columns_are_counted() -> None:
    assert cut(CopiedRows.of([b"\n", b"\n"]), 0).rows == 2
