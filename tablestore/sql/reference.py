"""The reference of SQL as text: statements, procedures, functions and settings, from the tables that the code
goes by. `python -m tablestore.sql.reference` writes `REFERENCE.md`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tablestore.sql.connectors.registry import CONNECTORS
from tablestore.sql.forms import FORMS
from tablestore.sql.query.functions import FUNCTIONS
from tablestore.sql.settings import SETTINGS
from tablestore.sql.statements.call import PROCEDURES

PAGE = Path(__file__).with_name("REFERENCE.md")
_KINDS = {"scalar": "Of one row", "aggregate": "Aggregates", "window": "Over windows"}


def page() -> str:
    """The whole page, in Markdown."""
    return (
        "\n".join([*_opening(), *_statements(), *_procedures(), *_functions(), *_settings(), *_connectors()])
        + "\n"
    )


def _opening() -> Iterator[str]:
    yield "# SQL: statements, procedures, functions, settings, connectors"
    yield ""
    yield "Made by `python -m tablestore.sql.reference` from the tables that the code goes by."
    yield ""
    yield "In a syntax, [ ] may be left out, { | } is a choice, … goes on so. Names stand bare, in back-"
    yield 'or "double" quotes, texts in single quotes; `?` and `:name` are parameters; `;` ends a statement.'
    yield ""
    families = dict.fromkeys(form.family for form in FORMS)
    yield "Statements: " + ", ".join(f"[{family}](#{family})" for family in families) + ". Then"
    yield "[procedures](#procedures), [functions](#functions), [settings](#settings),"
    yield "[connectors](#connectors)."


def _statements() -> Iterator[str]:
    for family in dict.fromkeys(form.family for form in FORMS):
        yield from ("", f"## {family.capitalize()}")
        for form in FORMS:
            if form.family == family:
                yield from ("", f"### {form.words}", "", "```text", form.syntax, "```", "", form.text)
                if form.example:
                    yield from ("", "```sql", form.example, "```")


def _procedures() -> Iterator[str]:
    yield from ("", "## Procedures", "", "| call | |", "|---|---|")
    for procedure in PROCEDURES.values():
        yield f"| `{_cell(procedure.syntax)}` | {_cell(procedure.text)} |"


def _functions() -> Iterator[str]:
    yield from ("", "## Functions")
    for kind, title in _KINDS.items():
        yield from ("", f"### {title}", "", "| function | |", "|---|---|")
        for function in FUNCTIONS.values():
            if function.kind == kind:
                yield f"| `{_cell(function.syntax)}` | {_cell(function.text)} |"


def _settings() -> Iterator[str]:
    yield from ("", "## Settings", "", "`SET 'key' = 'value'`.", "", "| key | default | |", "|---|---|---|")
    for setting in SETTINGS.values():
        values = f" ({', '.join(setting.values)})" if setting.values else ""
        yield f"| `{setting.name}` | {_cell(setting.default)} | {_cell(setting.text + values)} |"


def _connectors() -> Iterator[str]:
    yield from (
        "",
        "## Connectors",
        "",
        "Of temporary tables: `WITH ('connector' = 'name', 'key' = 'value', …)`.",
    )
    for connector in CONNECTORS.values():
        yield from (
            "",
            f"### `{connector.name}`",
            "",
            f"{connector.text[:1].upper()}{connector.text[1:]}.",
            "",
        )
        yield from ("| option | default | |", "|---|---|---|")
        for option in connector.options:
            default = "" if option.default is None else str(option.default)
            needed = "needed: " if option.required else ""
            text = f"refused: {option.refused}" if option.refused else needed + option.text
            yield f"| `{_cell(option.key)}` | {_cell(default)} | {_cell(text)} |"
        if connector.metadata:
            yield from (
                "",
                "Columns `name type METADATA FROM 'key' VIRTUAL`:",
                "",
                "| key | type | |",
                "|---|---|---|",
            )
            yield from (f"| `{key}` | {t} | {_cell(text)} |" for key, (text, t) in connector.metadata.items())


def _cell(text: str) -> str:
    """A text in a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
