"""Rows as people read them: a plain table for terminals, HTML for notebooks.

What a cell holds is only ever shown: control characters are written out, and in HTML everything is escaped.
Pure: Arrow in, text out. Used by `Result` and by the shell.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.quantities import many
from tablestore.format.types import cast_text
from tablestore.format.types.arrow_types import from_arrow, is_number

NULL = "NULL"
_CELL = 60  # columns of a terminal that one value may take
_LEAST = 6  # and that it keeps where there is little room
_GAP = " │ "
_FORMAT = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # categories of characters that a terminal would act on
_JOINER = "\u200d"  # of emojis


def shown(value: pa.Scalar) -> str:
    """A value as text: of lists `[1, 2]`, of rows and maps `{a: 1}`, of bytes `x'00ff'`."""
    if not value.is_valid:
        return NULL
    kind = value.type
    if pa.types.is_dictionary(kind):
        return shown(value.value)
    if pa.types.is_boolean(kind):
        return "TRUE" if value.as_py() else "FALSE"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return str(texts(pa.array([value.as_py()], kind))[0].as_py())
    if _is_bytes(kind):
        return f"x'{value.as_py().hex()}'"
    if pa.types.is_struct(kind):
        return _braces((name, _inner(value[i])) for i, name in enumerate(kind.names))
    if pa.types.is_map(kind):
        return _braces((_inner(entry[0]), _inner(entry[1])) for entry in value.values)
    if pa.types.is_nested(kind):
        return f"[{', '.join(map(_inner, value.values))}]"
    return str(value.cast(pa.string()).as_py())


def texts(column: pa.Array) -> pa.Array:
    """The same of every value of a column; NULL stays. Decimals have all their digits and no exponent, floats
    as few digits as tell them from others of their type."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return texts(column.dictionary_decode())
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "TRUE", "FALSE")
    if pa.types.is_floating(kind):
        cells = column.cast(pa.string())
        whole = pc.match_substring_regex(cells, r"^-?\d+$")
        return pc.if_else(whole, pc.binary_join_element_wise(cells, ".0", ""), cells)
    if pa.types.is_decimal128(kind):
        return cast_text.of(column, from_arrow(kind))
    if pa.types.is_decimal(kind):
        return pa.array([None if v is None else format(v, "f") for v in column.to_pylist()], pa.string())
    if pa.types.is_nested(kind) or _is_bytes(kind):
        return pa.array([shown(value) if value.is_valid else None for value in column], pa.string())
    return column.cast(pa.string())


def _inner(value: pa.Scalar) -> str:
    text = shown(value)
    quoted = value.is_valid and (pa.types.is_string(value.type) or pa.types.is_large_string(value.type))
    return "'" + text.replace("'", "''") + "'" if quoted else text


def _braces(pairs: Iterator[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        is_one(kind)
        for is_one in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        )
    )


def printable(text: str) -> str:
    """The text on one line, without characters that a terminal acts on: a tab is `\\t`, escape `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(_written_out(c) for c in text)


def _written_out(character: str) -> str:
    if unicodedata.category(character) not in _FORMAT or character == _JOINER:
        return character
    return character.encode("unicode_escape").decode("ascii")


def columns_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or character == _JOINER:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The text, with … at its end where it takes more columns."""
    if columns_of(text) <= columns:
        return text
    kept, room = [], columns - 1
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + "…"


def text_table(rows: pa.Table, *, width: int | None = 120) -> str:
    """The rows as lines of at most `width` columns, numbers at the right.

    Long values are cut; columns that have no room are counted below. With `width` None all is there.
    """
    table = TextRows(rows.schema, width=width)
    return "\n".join([*table.lines(rows), *table.omitted()])


class TextRows:
    """Rows that come in parts as lines below one heading; a column may grow from part to part."""

    def __init__(self, schema: pa.Schema, *, width: int | None = 120) -> None:
        self._names = [printable(name) for name in schema.names]
        self._right = [is_number(field.type) for field in schema]
        self._width, self._sizes, self._begun = width, [columns_of(name) for name in self._names], False

    def lines(self, rows: pa.Table) -> list[str]:
        """The lines of more rows, the first time below the heading."""
        cells = [[printable(shown(value)) for value in column] for column in rows.columns]
        sizes = [max([n, *map(columns_of, c)]) for n, c in zip(self._sizes, cells, strict=False)]
        if self._width is not None:
            sizes = _narrowed([min(size, _CELL) for size in sizes], self._width)
        self._sizes = sizes
        lines = [] if self._begun else [self._line(self._names), "─┼─".join("─" * size for size in sizes)]
        self._begun = True
        return [*lines, *(self._line(row) for row in zip(*cells, strict=True))]

    def omitted(self) -> list[str]:
        """A line about the columns that have no room, if there are some."""
        names = self._names[len(self._sizes) :]
        if not names:
            return []
        room = (self._width or 0) - 20
        return [f"… {many(len(names), 'more column')}: {cut(', '.join(names), room)}"]

    def _line(self, cells: Sequence[str]) -> str:
        return _line(cells, self._sizes, self._right)


def _narrowed(sizes: list[int], width: int) -> list[int]:
    """Sizes that fit into the width: the widest give way first; what has no room at the end is left out."""
    narrowed = list(sizes)
    while sum(narrowed) + len(_GAP) * (len(narrowed) - 1) > width:
        widest = max(narrowed)
        if widest > _LEAST:
            narrowed[narrowed.index(widest)] -= 1
        elif len(narrowed) > 1:
            narrowed.pop()
        else:
            break
    kept = sizes[: len(narrowed)]
    room = width - len(_GAP) * (len(kept) - 1) - sum(narrowed)
    for i, size in enumerate(kept):  # what columns that were left out set free
        more = min(size - narrowed[i], max(room, 0))
        narrowed[i], room = narrowed[i] + more, room - more
    return narrowed


def _line(cells: Sequence[str], sizes: list[int], right: list[bool]) -> str:
    padded = []
    for cell, size, number in zip(cells, sizes, right, strict=False):
        text = cut(cell, size)
        blank = " " * (size - columns_of(text))
        padded.append(blank + text if number else text + blank)
    return _GAP.join(padded).rstrip()


_BOX = "max-height:28em;overflow:auto;display:inline-block;max-width:100%"
_HTML_CHARACTERS = 300  # of a value


def html_pages(rows: pa.Table, *, page_rows: int, name: str) -> str:
    """The rows as a table that pages, of `page_rows` each; `name` is an identifier that no other part of the
    page has. Works without scripts: style says which page stands."""
    if rows.num_rows <= page_rows:
        return html_table(rows)
    starts = range(0, rows.num_rows, page_rows)
    ends = [min(start + page_rows, rows.num_rows) for start in starts]
    rules = "".join(
        f"#{name}-{n}:checked~div .{name}-{n}{{display:table-row-group}}" for n in range(len(ends))
    )
    choices = "".join(
        f'<input type="radio" name="{name}" id="{name}-{n}"{"" if n else " checked"}>'
        f'<label for="{name}-{n}" style="margin-right:.7em">{start + 1:,}–{end:,}</label>'
        for n, (start, end) in enumerate(zip(starts, ends, strict=True))
    )
    bodies = "".join(
        f'<tbody class="{name} {name}-{n}">{_body(rows.slice(start, page_rows))}</tbody>'
        for n, start in enumerate(starts)
    )
    table = f'<div style="{_BOX}"><table><thead>{_head(rows)}</thead>{bodies}</table></div>'
    return f"<div><style>.{name}{{display:none}}{rules}</style>{choices}{table}</div>"


def html_table(rows: pa.Table) -> str:
    """The rows as a table that scrolls; it takes its colours from the page, light or dark."""
    body = f"<thead>{_head(rows)}</thead><tbody>{_body(rows)}</tbody>"
    return f'<div style="{_BOX}"><table>{body}</table></div>'


def _head(rows: pa.Table) -> str:
    right = [is_number(field.type) for field in rows.schema]
    head = "".join(
        f'<th title="{html.escape(str(field.type))}" style="{_side(r)}">{_escaped(field.name)}</th>'
        for field, r in zip(rows.schema, right, strict=True)
    )
    return f"<tr>{head}</tr>"


def _body(rows: pa.Table) -> str:
    right = [is_number(field.type) for field in rows.schema]
    return "".join(
        "<tr>" + "".join(_cell(column[i], r) for column, r in zip(rows.columns, right, strict=True)) + "</tr>"
        for i in range(rows.num_rows)
    )


def _cell(value: pa.Scalar, right: bool) -> str:
    if not value.is_valid:
        return f'<td style="{_side(right)}"><i style="opacity:.55">NULL</i></td>'
    text = shown(value)
    text = text if len(text) <= _HTML_CHARACTERS else text[: _HTML_CHARACTERS - 1] + "…"
    return f'<td style="{_side(right)}">{_escaped(text)}</td>'


def _side(right: bool) -> str:
    return f"text-align:{'right' if right else 'left'};white-space:pre"


def html_line(text: str) -> str:
    """A quiet line below or instead of a table."""
    return f'<div style="opacity:.7;font-size:90%">{_escaped(text)}</div>'


def _escaped(text: str) -> str:
    """For HTML; `$` too, which notebooks take for mathematics."""
    return html.escape(printable(text)).replace("$", "&#36;")


def seconds(value: float) -> str:
    """`0.12 s`, `3 min 5 s`."""
    if value < 60:
        return f"{value:.2f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"
