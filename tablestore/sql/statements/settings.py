"""SET and RESET: settings of the session."""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.core.options.names import of_new_tables
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, of_family
from tablestore.sql.result import Result
from tablestore.sql.scope import require_inside
from tablestore.sql.session import Session
from tablestore.sql.settings import CHECKPOINTS, TABLE_STORAGE


@dataclass(frozen=True, slots=True)
class Set:
    """SET 'k' = 'v'; without a key it lists all settings."""

    key: str | None = None
    value: str = ""

    @staticmethod
    def parse(p: Parser) -> Set:
        if p.ended:
            return Set()
        key = p.option_key()
        p.expect("=")
        value = p.string() if not p.next_text.isalnum() else p.option_key()
        return Set(key, value)

    def run(self, session: Session) -> Result:
        if self.key is None:
            rows = session.settings.rows()
            return Result.of_texts({"key": [k for k, _ in rows], "value": [v for _, v in rows]})
        if session.roots is not None and self.key == CHECKPOINTS and self.value:
            session.roots.inside(self.value, f"setting {self.key!r}")
        if self.key.startswith(TABLE_STORAGE):
            require_inside(session.roots, dict([of_new_tables(self.key, self.value)]))
        session.settings.set(self.key, self.value)
        return Result(message=f"{self.key} is {session.settings[self.key]}")


@dataclass(frozen=True, slots=True)
class Reset:
    """RESET 'k'; without a key all settings."""

    key: str | None = None

    def run(self, session: Session) -> Result:
        session.settings.reset(self.key)
        return Result(message=f"{self.key or 'all settings'}: the default again")


FORMS = of_family(
    "session",
    Form(
        "SET ['key' = 'value']",
        "Set a setting of the session; alone, list them.",
        Set.parse,
        example="SET 'execution.runtime-mode' = 'batch'",
    ),
    Form(
        "RESET ['key']",
        "A setting, or all of them, back to the default.",
        lambda p: Reset(None if p.ended else p.option_key()),
        example="RESET",
    ),
)
