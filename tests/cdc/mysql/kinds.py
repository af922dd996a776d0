"""A table with a column of every type, values at the ends of each, and random ones."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any

Value = Callable[[random.Random], Any]


def _whole(low: int, high: int) -> tuple[list[Any], Value]:
    return [low, high, 0, 1], lambda r: r.randint(low, high)


def _decimal(digits: int, scale: int, sign: int = -1) -> tuple[list[Any], Value]:
    def text(n: int) -> str:
        shown = str(abs(n)).rjust(scale + 1, "0")
        body = f"{shown[: len(shown) - scale]}.{shown[len(shown) - scale :]}" if scale else shown
        return f"-{body}" if n < 0 else body

    low, high = sign * (10**digits - 1) if sign < 0 else 0, 10**digits - 1
    ends = [text(n) for n in (low, high, 0, 1, low // 2)]
    return ends, lambda r: text(r.randint(low, high) // 10 ** r.randint(0, digits))


def _date(r: random.Random) -> str:
    return f"{r.randint(1, 9999):04d}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"


def _clock(r: random.Random, digits: int) -> str:
    text = f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d}"
    return f"{text}.{r.randrange(10**digits):0{digits}d}" if digits else text


def _datetime(digits: int) -> tuple[list[Any], Value]:
    tail = "." + "9" * digits if digits else ""
    ends = [
        "0000-00-00 00:00:00",
        "2024-00-15 01:02:03",
        "2024-02-31 00:00:00",
        "1000-01-01 00:00:00",
        "9999-12-31 23:59:59" + tail,
        "1969-12-31 23:59:59" + tail,
        "2000-02-29 00:00:00",
    ]
    return ends, lambda r: f"{_date(r)} {_clock(r, digits)}"


def _timestamp(digits: int) -> tuple[list[Any], Value]:
    tail = "." + "9" * digits if digits else ""
    ends = ["0000-00-00 00:00:00", "1970-01-01 00:00:01", "2038-01-19 03:14:07" + tail]
    return ends, lambda r: f"{r.randint(1971, 2037)}{_date(r)[4:]} {_clock(r, digits)}"


def _time(digits: int) -> tuple[list[Any], Value]:
    tail = "." + "0" * (digits - 1) + "1" if digits else ""
    ends = ["-838:59:59", "838:59:59", "00:00:00", "-00:00:00" + tail, "-00:00:01" + tail, "99:00:00" + tail]
    return ends, lambda r: f"{r.choice(['', '-'])}{r.randint(0, 837)}{_clock(r, digits)[2:]}"


def _text(alphabet: str, longest: int) -> tuple[list[Any], Value]:
    ends = ["", alphabet[-1], alphabet[0] * longest, "NULL"[:longest]]
    return ends, lambda r: "".join(r.choices(alphabet, k=r.randint(0, longest)))


def _bytes(longest: int) -> tuple[list[Any], Value]:
    ends = [b"", b"\0", b"\xff" * longest, b"a\0"[:longest], b"\xfb"]
    return ends, lambda r: r.randbytes(r.randint(0, longest))


def _groups(r: random.Random) -> str:
    return ":".join(f"{r.choice([0, 0, 1, r.randrange(65536)]):x}" for _ in range(8))


ASCII = string.ascii_letters + string.digits + " '\"\\%"
EUROPE = "abcäöüßéñ€" + ASCII
WORLD = "aé€中😀кטا" + ASCII
INET6 = (
    "::|::1|::ffff:0:1|::1:2|::0.0.1.2|::ffff:1.2.3.4|1:0:0:2:0:0:0:3|1:0:2:3:4:5:6:7|1:2:3:4:5:6:7::|fe80::"
)

KINDS: dict[str, tuple[list[Any], Value]] = {
    "TINYINT": _whole(-128, 127),
    "TINYINT(1)": _whole(0, 2),
    "TINYINT UNSIGNED": _whole(0, 255),
    "SMALLINT": _whole(-(2**15), 2**15 - 1),
    "SMALLINT UNSIGNED": _whole(0, 2**16 - 1),
    "YEAR": ([0, 1901, 2155], lambda r: r.randint(1901, 2155)),
    "MEDIUMINT": _whole(-(2**23), 2**23 - 1),
    "MEDIUMINT UNSIGNED": _whole(0, 2**24 - 1),
    "INT": _whole(-(2**31), 2**31 - 1),
    "INT UNSIGNED": _whole(0, 2**32 - 1),
    "INT(9) ZEROFILL": _whole(0, 2**32 - 1),
    "BIGINT": _whole(-(2**63), 2**63 - 1),
    "BIGINT UNSIGNED": _whole(0, 2**64 - 1),
    "DECIMAL(1)": _decimal(1, 0),
    "DECIMAL(9,4)": _decimal(9, 4),
    "DECIMAL(15,2)": _decimal(15, 2),
    "DECIMAL(18,18)": _decimal(18, 18),
    "DECIMAL(19,0)": _decimal(19, 0),
    "DECIMAL(38,10)": _decimal(38, 10),
    "DECIMAL(38,38)": _decimal(38, 38),
    "DECIMAL(39,3)": _decimal(39, 3),
    "DECIMAL(65,30)": _decimal(65, 30),
    "DECIMAL(10,2) UNSIGNED ZEROFILL": _decimal(10, 2, 1),
    "FLOAT": ([0, -0.0, 1.1, 16777217, 3.4e38, 1e-38], lambda r: r.uniform(-1, 1) * 10 ** r.randint(-37, 38)),
    "DOUBLE": ([0, 0.1, 1 / 3, 1.7e308, 5e-324], lambda r: r.uniform(-1, 1) * 10 ** r.randint(-300, 300)),
    "DOUBLE(10,2)": ([0, 0.1, 99999999.99], lambda r: round(r.uniform(-9e7, 9e7), 2)),
    "DATE": (["0000-00-00", "2024-00-01", "2024-02-30", "0001-01-01", "9999-12-31", "1969-12-31"], _date),
    "DATETIME": _datetime(0),
    "DATETIME(1)": _datetime(1),
    "DATETIME(3)": _datetime(3),
    "DATETIME(6)": _datetime(6),
    "TIMESTAMP": _timestamp(0),
    "TIMESTAMP(2)": _timestamp(2),
    "TIMESTAMP(6)": _timestamp(6),
    "TIME": _time(0),
    "TIME(1)": _time(1),
    "TIME(4)": _time(4),
    "TIME(6)": _time(6),
    "BIT(1)": ([0, 1], lambda r: r.randint(0, 1)),
    "BIT(13)": _whole(0, 2**13 - 1),
    "BIT(64)": _whole(0, 2**64 - 1),
    "CHAR(10)": _text(WORLD, 10),
    "CHAR(100)": _text(WORLD, 100),
    "VARCHAR(20)": _text(WORLD, 20),
    "VARCHAR(300)": _text(WORLD, 300),
    "TINYTEXT": _text(ASCII, 255),
    "TEXT": _text(WORLD, 2000),
    "MEDIUMTEXT": _text(WORLD, 500),
    "LONGTEXT": _text(WORLD, 500),
    "CHAR(10) CHARACTER SET latin1": _text(EUROPE, 10),
    "VARCHAR(50) CHARACTER SET latin1": _text(EUROPE, 50),
    "VARCHAR(50) CHARACTER SET utf16": _text(WORLD, 50),
    "CHAR(9) CHARACTER SET utf16": _text(WORLD, 9),
    "VARCHAR(50) CHARACTER SET utf16le": _text(WORLD, 50),
    "VARCHAR(50) CHARACTER SET utf32": _text(WORLD, 50),
    "VARCHAR(50) CHARACTER SET ucs2": _text("aé€中к" + ASCII, 50),
    "TEXT CHARACTER SET cp1251": _text("привет" + ASCII, 50),
    "TEXT CHARACTER SET gbk": _text("中文字" + ASCII, 50),
    "TEXT COLLATE utf8mb4_bin": _text(WORLD, 50),
    "BINARY(8)": _bytes(8),
    "BINARY(1)": _bytes(1),
    "VARBINARY(20)": _bytes(20),
    "VARBINARY(300)": _bytes(300),
    "TINYBLOB": _bytes(255),
    "BLOB": _bytes(700),
    "MEDIUMBLOB": _bytes(700),
    "LONGBLOB": _bytes(700),
    "ENUM('a','b','ü','')": (["a", "ü", ""], lambda r: r.choice(["a", "b", "ü"])),
    "ENUM('ä','ß') CHARACTER SET latin1": (["ä"], lambda r: r.choice(["ä", "ß"])),
    "SET('x','y','z','é')": (["", "x,z", "x,y,z,é"], lambda r: ",".join(r.sample("xyzé", r.randint(0, 4)))),
    "JSON": (['{"a": [1, null, "é"]}', "null"], lambda r: f'{{"n": {r.random()}}}'),
    "UUID": (
        ["00000000-0000-0000-0000-000000000000", "123e4567-e89b-12d3-a456-426655440000"],
        lambda r: f"{r.getrandbits(32):08x}-1000-7000-8000-{r.getrandbits(48):012x}",
    ),
    "INET4": (["0.0.0.0", "255.255.255.0"], lambda r: ".".join(str(r.randrange(256)) for _ in range(4))),
    "INET6": (INET6.split("|"), _groups),
}


def columns() -> dict[str, str]:
    """Types by the names of their columns."""
    return {f"c{i:02d}": kind for i, kind in enumerate(KINDS)}


def statement(table: str) -> str:
    """CREATE TABLE; its values are inserted in the order of `columns`, after the key."""
    parts = [f"{name} {kind} NULL" for name, kind in columns().items()]
    return f"CREATE TABLE {table} (id INT PRIMARY KEY, {', '.join(parts)}) ROW_FORMAT=DYNAMIC"


def edges() -> list[list[Any]]:
    """Rows with NULL everywhere, then each end of each type."""
    ends = [values for values, _ in KINDS.values()]
    rows = [[None] * len(ends)]
    return rows + [[values[i % len(values)] for values in ends] for i in range(max(map(len, ends)))]


def random_rows(r: random.Random, count: int) -> list[list[Any]]:
    """Rows in which one value of six is NULL."""
    makers = [make for _, make in KINDS.values()]
    return [[None if r.random() < 1 / 6 else make(r) for make in makers] for _ in range(count)]
