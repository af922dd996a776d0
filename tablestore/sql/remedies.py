"""Remedies of errors in the words of SQL, for who typed SQL: the verbs' own errors name calls of Python."""

from __future__ import annotations

import ast
import re

_SET = re.compile(r"t\.alter\(ts\.set_options\((\{[^{}]*\})\)\)")
_TRUNCATE = "t.truncate(partition=…)"
_DATABASE = "create_database(name) makes it"
_TARGET = re.compile(
    r"\s*(?:UPDATE|DELETE\s+FROM|MERGE\s+INTO|INSERT\s+(?:INTO|OVERWRITE))\s+"
    r"((?:`[^`]+`|\"[^\"]+\"|[\w$]+)(?:\.(?:`[^`]+`|\"[^\"]+\"|[\w$]+))*)",
    re.IGNORECASE,
)


def in_sql(message: str, statement: str) -> str:
    """The message of an error of a statement, with its remedies as statements over its table."""
    message = message.replace(_DATABASE, "CREATE DATABASE name makes it")
    target = _TARGET.match(statement)
    if target is None:
        return message
    message = message.replace(_TRUNCATE, f"TRUNCATE TABLE {target[1]} PARTITION (…)")
    return _SET.sub(lambda found: _alter(target[1], found[1]), message)


def _alter(table: str, options: str) -> str:
    values = {key: str(value).lower() for key, value in ast.literal_eval(options).items()}
    return f"ALTER TABLE {table} SET ({', '.join(f'{k!r} = {v!r}' for k, v in values.items())})"
