"""SET and RESET: settings of the session."""

from __future__ import annotations

from tablestore.core.options.names import of_new_tables
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, FunctionStatement, doing, of_family
from tablestore.sql.result import Result
from tablestore.sql.scope import require_inside
from tablestore.sql.session import Session
from tablestore.sql.settings import CHECKPOINTS, TABLE_STORAGE


def _settings(session: Session) -> Result:
    rows = session.settings.rows()
    return Result.of_texts({"key": [k for k, _ in rows], "value": [v for _, v in rows]})


def _set(key: str, value: str, session: Session) -> Result:
    if session.roots is not None and key == CHECKPOINTS and value:
        session.roots.inside(value, f"setting {key!r}")
    if key.startswith(TABLE_STORAGE):
        require_inside(session.roots, dict([of_new_tables(key, value)]))
    session.settings.set(key, value)
    return Result(message=f"{key} is {session.settings[key]}")


def _parse_set(p: Parser) -> FunctionStatement:
    if p.ended:
        return doing(_settings)
    key = p.option_key()
    p.expect("=")
    return doing(_set, key, p.string() if not p.next_text.isalnum() else p.option_key())


def _reset(key: str | None, session: Session) -> Result:
    """RESET 'k'; without a key all settings."""
    session.settings.reset(key)
    return Result(message=f"{key or 'all settings'}: the default again")


FORMS = of_family(
    "session",
    Form(
        "SET ['key' = 'value']",
        "Set a setting of the session; alone, list them.",
        _parse_set,
        example="SET 'execution.runtime-mode' = 'batch'",
    ),
    Form(
        "RESET ['key']",
        "A setting, or all of them, back to the default.",
        lambda p: doing(_reset, None if p.ended else p.option_key()),
        example="RESET",
    ),
)
