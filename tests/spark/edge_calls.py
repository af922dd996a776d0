"""Calls of functions by SQL on columns of a table whose rows are at the edges of each type.

`edge_calls.txt` has those of functions that need calls of their own: a name, then its calls, indented;
`«a|b»` is one of these, so a line is several calls. Those of other functions are made of their syntax.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from tablestore.sql.query.functions import FUNCTIONS

COLUMNS = {
    "i INT": ["0", "1", "-1", "2", "-7", "2147483647", "-2147483648", "NULL"],
    "n BIGINT": ["0", "-1", "3", "5", "9223372036854775807", "-9223372036854775808", "100", "NULL"],
    "x DOUBLE": [
        "0e0",
        "-0.5e0",
        "1e0",
        "CAST('NaN' AS DOUBLE)",
        "CAST('Infinity' AS DOUBLE)",
        "-1e300",
        "2.5e0",
        "NULL",
    ],
    "f FLOAT": [
        "0e0",
        "-1.5e0",
        "1e0",
        "CAST('NaN' AS FLOAT)",
        "CAST('-Infinity' AS FLOAT)",
        "3e38",
        "1e-1",
        "NULL",
    ],
    "m DECIMAL(10, 3)": ["0", "-2.500", "2.345", "1", "-9999999.999", "9999999.999", "0.001", "NULL"],
    "s STRING": ["''", "'a'", "'äß İ'", "' a,b '", "'😀zé'", "'2024-03-31 02:30:00'", "'A=1,b=2'", "NULL"],
    "p STRING": ["''", "'a'", "'ß'", "','", "'z'", "'0'", "'A'", "NULL"],
    "d DATE": [
        "DATE '0001-01-01'",
        "DATE '1582-10-10'",
        "DATE '1969-12-31'",
        "DATE '2024-02-29'",
        "DATE '2024-12-31'",
        "DATE '9999-12-31'",
        "DATE '2026-01-04'",
        "NULL",
    ],
    "t TIMESTAMP(3)": [
        "TIMESTAMP '0001-01-01 00:00:00'",
        "TIMESTAMP '1582-10-10 12:00:00'",
        "TIMESTAMP '1969-12-31 23:59:59.999'",
        "TIMESTAMP '2024-03-31 02:30:15.125'",
        "TIMESTAMP '2024-10-27 02:30:00'",
        "TIMESTAMP '9999-12-31 23:59:59.999'",
        "TIMESTAMP '2026-01-04 13:05:07.040'",
        "NULL",
    ],
    "u TIMESTAMP(6)": [
        "TIMESTAMP '0001-01-01 00:00:00.000001'",
        "TIMESTAMP '1582-10-04 23:59:59.999999'",
        "TIMESTAMP '1969-12-31 23:59:59.5'",
        "TIMESTAMP '2024-03-31 02:59:59.999999'",
        "TIMESTAMP '2024-10-27 03:00:00'",
        "TIMESTAMP '9999-12-31 23:59:59.999999'",
        "TIMESTAMP '2026-01-04 00:00:00'",
        "NULL",
    ],
    "z TIMESTAMP_LTZ(3)": [
        "CAST(TIMESTAMP '0001-01-03 00:00:00' AS TIMESTAMP_LTZ(3))",
        "CAST(TIMESTAMP '1582-10-10 12:00:00' AS TIMESTAMP_LTZ(3))",
        "CAST(TIMESTAMP '1969-12-31 23:59:59.999' AS TIMESTAMP_LTZ(3))",
        "CAST(TIMESTAMP '2024-03-31 01:30:15.125' AS TIMESTAMP_LTZ(3))",
        "CAST(TIMESTAMP '2024-10-27 02:30:00' AS TIMESTAMP_LTZ(3))",
        "CAST(TIMESTAMP '9999-12-30 23:59:59.999' AS TIMESTAMP_LTZ(3))",
        "CAST(TIMESTAMP '2026-01-04 13:05:07.040' AS TIMESTAMP_LTZ(3))",
        "NULL",
    ],
    "c TIME(3)": [
        "TIME '00:00:00'",
        "TIME '23:59:59.999'",
        "TIME '12:34:56.7'",
        "TIME '01:00:00'",
        "TIME '13:00:00'",
        "TIME '02:30:00'",
        "TIME '00:00:01'",
        "NULL",
    ],
    "o BOOLEAN": ["TRUE", "FALSE", "TRUE", "FALSE", "TRUE", "FALSE", "TRUE", "NULL"],
    "a ARRAY<INT>": [
        "ARRAY[1, 2, 2]",
        "ARRAY[1, CAST(NULL AS INT)]",
        "ARRAY[-1, 0]",
        "ARRAY[2147483647, -7]",
        "ARRAY[CAST(NULL AS INT), CAST(NULL AS INT)]",
        "ARRAY[5]",
        "ARRAY[0, 1]",
        "NULL",
    ],
    "e MAP<STRING, INT>": [
        "MAP['a', 1]",
        "MAP['b', 2, 'a', 3]",
        "MAP['', 0]",
        "MAP['x', CAST(NULL AS INT)]",
        "MAP['a', 1, 'b', 2, 'c', 3]",
        "MAP['ä', -1]",
        "MAP['q', 9]",
        "NULL",
    ],
    "b BYTES": ["X''", "X'00'", "X'ff00'", "X'6162'", "X'c3a4'", "X'7f'", "X'31'", "NULL"],
}
"""Column and type: its value in each row."""

_POOLS = {
    "text": ["s", "p", "' xa'"],
    "separator": ["','", "p"],
    "part": ["p", "'a'", "''"],
    "pattern": ["'a'", "p"],
    "by": ["'b'", "p", "''"],
    "start": ["1", "2", "0", "-1", "i"],
    "length": ["2", "0", "5", "i"],
    "n": ["i", "n", "x", "f", "m"],
    "m": ["i", "x", "m", "2"],
    "i": ["0", "1", "i"],
    "a": ["i", "s", "m", "d", "t", "x", "o", "a"],
    "b": ["i", "m", "x"],
    "c": ["n"],
    "from": ["'a'", "p"],
    "to": ["'b'", "''", "p"],
    "json": ["'{\"a\": 1}'", "s"],
    "path": ["'$.a'"],
    "time": ["d", "t", "u", "z", "c"],
    "date": ["d", "t", "z"],
    "days": ["1", "i"],
    "'pattern'": ["'yyyy'", "'yyyy-MM-dd HH:mm:ss'"],
    "'unit'": ["'day'", "'hour'", "'week'"],
    "unit": ["DAY", "HOUR", "MONTH"],
    "seconds": ["i", "n"],
    "precision": ["3", "0"],
    "group": ["0", "1"],
    "digits": ["0", "1", "-1", "i"],
    "base": ["2", "x", "m"],
    "share": ["0.5"],
    "x": ["x", "m", "i"],
    "y": ["x", "i"],
    "condition": ["o", "i > 0", "o IS NULL"],
    "array": ["a", "ARRAY[i, 2]"],
    "map": ["e"],
    "characters": ["'a'", "p"],
    "otherwise": ["0"],
    "bits": ["256", "224"],
    "bytes": ["b"],
    "charset": ["'UTF-8'"],
    "value": ["i", "s", "x"],
    "url": ["'http://a.b'"],
    "key": ["'q'"],
    "nth": ["1", "2"],
    "end": ["1", "-1"],
    "ascending": ["TRUE"],
    "nulls_first": ["TRUE"],
    "null": ["'?'"],
    "keys": ["ARRAY['a']"],
    "values": ["ARRAY[2]"],
    "zone": ["'UTC'"],
    "pairs": ["','"],
}
"""Parameter, as the syntax of a function names it: what stands for it."""

_MOST = 24  # calls of one function


def calls() -> dict[str, list[str]]:
    """Calls of each function that has one value for a row, by its name; operators under an empty one."""
    steady = {name: f for name, f in FUNCTIONS.items() if f.kind == "scalar" and f.steady}
    listed = _listed()
    by_name = {name: listed.get(name) or _made(name, f.syntax) for name, f in steady.items()}
    return {"": listed["operators"], **by_name}


def _listed() -> dict[str, list[str]]:
    """The calls of the text file, by the name of their function; `operators` are expressions of no name."""
    listed: dict[str, list[str]] = {}
    of_name: list[str] = []
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            parts = re.split("[«»]", line.strip())
            choices = [part.split("|") if n % 2 else [part] for n, part in enumerate(parts)]
            of_name += map("".join, itertools.product(*choices))
        else:
            of_name = listed[line] = []
    return listed


def _made(name: str, syntax: str) -> list[str]:
    inner = syntax.partition("(")[2].removesuffix(")")
    collected = []
    for shown in dict.fromkeys((inner.partition("[")[0], inner.replace("[", "").replace("]", ""))):
        parameters = [p.strip() for p in shown.split(",") if p.strip() not in ("", "…")]
        combined = itertools.product(*(_POOLS[p] for p in parameters))
        collected += [f"{name}({', '.join(arguments)})" for arguments in itertools.islice(combined, _MOST)]
    return collected
