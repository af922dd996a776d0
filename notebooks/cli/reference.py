"""The API reference: every public name with what it gives, its parameters and its example, as static pages.

Built from signatures and docstrings: its examples are those that the tests run. A word in backquotes that
is a public name becomes a link, and so does the name of an error. Pure: names in, HTML out. Called by
`docs --api`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from types import ModuleType
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer

import tablestore as ts
import widgets
from notebooks.cli.pages import PageParts, styled_page
from tablestore.core.options import rules
from tablestore.insight.explain.explanation import Explanation
from tablestore.insight.inspect.inspect import Inspect
from tablestore.table.log_view import LogView
from tablestore.table.lookup_join.join import LookupJoin
from tablestore.table.refs import Branches, Consumers, Tags
from tablestore.table.writer import EngineWriter, Writer

_WIDE = 92  # characters of a signature on one line
_FORMATTER = HtmlFormatter(cssclass="highlight")
_STYLE = """
.reference { display: grid; grid-template-columns: 200px minmax(0, 1fr); gap: 40px; }
.contents { position: sticky; top: 24px; align-self: start; max-height: calc(100vh - 48px); overflow-y: auto;
  font-size: 13px; line-height: 20px; margin: 0; }
.contents a { display: block; text-decoration: none; overflow-wrap: anywhere; }
.contents strong { display: block; margin: 12px 0 4px; }
.pages a { margin-right: 14px; }
.pages a.here { color: var(--page-ink); font-weight: 600; text-decoration: none; }
article section { border-top: 1px solid var(--page-line); padding: 4px 0 8px; }
article h2 { margin: 28px 0 8px; } article h3 { font-size: 16px; line-height: 24px; margin: 16px 0 4px; }
article h3 a { color: inherit; text-decoration: none; }
article h3 .quiet { font-weight: 400; font-size: 13px; }
article p { max-width: 720px; margin: 8px 0; } section:target h3 { background: var(--page-warn-tint); }
td { max-width: 560px; overflow-wrap: anywhere; }
@media (max-width: 760px) { .reference { display: block; } .contents { display: none; } }
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One public name: how it is written, what kind of thing it is, its call, and what its docstring says."""

    name: str
    kind: str
    call: str
    text: str

    @property
    def summary(self) -> str:
        """The first sentence."""
        return re.split(r"(?<=\.)\s", self.text.replace("\n", " "), maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Page:
    """Entries that are read together."""

    file: str
    title: str
    about: str
    entries: tuple[Entry, ...] = ()
    body: str = ""  # HTML of its own, after the entries


def pages() -> list[Page]:
    """The whole reference."""
    named = {name: getattr(ts, name) for name in ts.__all__}
    errors = {n: v for n, v in named.items() if inspect.isclass(v) and issubclass(v, Exception)}
    types = {n: v for n, v in named.items() if n.isupper()}
    functions = {n: v for n, v in named.items() if inspect.isfunction(v) and n not in types}
    values = {
        n: v
        for n, v in named.items()
        if n not in {*errors, *types, *functions} and v not in (ts.Lake, ts.Table, ts.Scan)
    }
    return [
        Page("lake", "Lake", "Databases and tables in a directory or a catalog.", tuple(members(ts.Lake))),
        Page("table", "Table", "Reading, writing and keeping a table.", tuple(members(ts.Table))),
        Page(
            "around",
            "Tags, log, writers, joins",
            "What a table gives: its tags, branches and consumers, its log, writers, lookup joins.",
            tuple(
                e
                for c in (Tags, Branches, Consumers, LogView, Writer, EngineWriter, LookupJoin)
                for e in members(c)
            ),
        ),
        Page(
            "scan",
            "Scan",
            "A lazy read, and why its files are read or skipped.",
            (*members(ts.Scan), *members(Explanation)),
        ),
        Page("inspect", "inspect", "Metadata of a table as Arrow tables.", tuple(members(Inspect))),
        Page(
            "functions",
            "Functions",
            "What `tablestore` itself offers; schema changes are given to `Table.alter`.",
            tuple(_function(f"ts.{n}", v) for n, v in functions.items()),
        ),
        Page("types", "Types", "Types of columns.", tuple(_type(n, v) for n, v in types.items())),
        Page(
            "values",
            "Values",
            "What verbs answer with.",
            tuple(e for n, v in values.items() for e in members(v, f"ts.{n}")),
        ),
        Page("errors", "Errors", "By what the caller does next.", tuple(_errors(errors))),
        Page("options", "Options", "Every option of a table, and what it does here.", body=_options()),
        Page("widgets", "Widgets", "Pictures and controls for notebooks.", tuple(_widgets(widgets))),
    ]


def members(kind: type, name: str = "") -> Iterator[Entry]:
    """A class, then its public properties and methods, in the order in which they are written."""
    name = name or kind.__name__
    yield Entry(name, "class", "", inspect.cleandoc(kind.__doc__ or ""))
    ours = kind.__module__.partition(".")[0]
    done: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] != ours:
            continue
        for member, value in vars(base).items():
            if member.startswith("_") or member in done:
                continue
            done.add(member)
            text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
            if isinstance(value, property | cached_property):
                yield Entry(f"{name}.{member}", "property", "", text)
            elif inspect.isfunction(value) and text:
                yield Entry(f"{name}.{member}", "method", _call(member, value), text)


def _function(name: str, value: Any) -> Entry:
    return Entry(name, "function", _call(name, value), inspect.cleandoc(value.__doc__ or ""))


def _type(name: str, value: Any) -> Entry:
    if inspect.isfunction(value):
        return _function(f"ts.{name}", value)
    return Entry(f"ts.{name}", "type", "", f"The type {value}.")


def _errors(errors: Mapping[str, type]) -> Iterator[Entry]:
    for name, kind in errors.items():
        bases = ", ".join(b.__name__ for b in kind.__bases__)
        yield Entry(f"ts.{name}", f"error, a {bases}", "", inspect.cleandoc(kind.__doc__ or ""))


def _widgets(package: ModuleType) -> Iterator[Entry]:
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isclass(value):
            entry, *rest = members(value)
            call = _call(name, value.__init__)
            yield Entry(entry.name, "class", call, entry.text)
            yield from rest
        else:
            yield _function(name, value)


def _call(name: str, function: Any) -> str:
    """How it is called, on one line or a parameter a line; annotations as they are written."""
    signature = inspect.signature(function)
    shown: list[str] = []
    keywords = False
    for p in signature.parameters.values():
        if p.name == "self" or (p.name in ("io", "env") and p.kind is p.KEYWORD_ONLY):
            continue  # a file system and a clock are given by tests
        if p.kind is p.KEYWORD_ONLY and not keywords:
            shown.append("*")
        keywords = keywords or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        annotation = "" if p.annotation is p.empty else f": {_annotation(p.annotation)}"
        default = "" if p.default is p.empty else f" = {p.default!r}" if annotation else f"={p.default!r}"
        shown.append(f"{star}{p.name}{annotation}{default}")
    gives = signature.return_annotation
    after = "" if gives is signature.empty or name[0].isupper() else f" -> {_annotation(gives)}"
    line = f"{name}({', '.join(shown)}){after}"
    if len(line) <= _WIDE:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + f"){after}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _options() -> str:
    """Three tables: what is implemented, what is ignored, what is refused."""
    parts = []
    for status in ("implemented", "ignored", "refused"):
        facts = [f for f in rules.describe() if f.status == status]
        rows = "".join(
            f'<tr id="{escape(f.name)}"><td><code>{escape(f.name)}</code></td>'
            f"<td>{escape(f.default or '')}</td><td>{escape(f.meaning)}</td></tr>"
            for f in facts
        )
        head = "<tr><th>option</th><th>default</th><th>meaning</th></tr>"
        parts.append(f"<h2>{status.capitalize()} ({len(facts)})</h2><table>{head}{rows}</table>")
    return "".join(parts)


def html(pages: Iterable[Page]) -> dict[str, str]:
    """The pages by file name, and an index of all names."""
    listed = list(pages)
    places = {e.name: f"{page.file}.html#{e.name}" for page in listed for e in page.entries}
    files = {f"{page.file}.html": _page(page, listed, places) for page in listed}
    rows = "".join(
        f'<tr><td><a href="{p.file}.html">{escape(p.title)}</a></td>'
        f"<td>{_prose(p.about, None, places)}</td></tr>"
        for p in listed
    )
    names = "".join(
        f'<tr><td><a href="{places[e.name]}"><code>{escape(e.name)}</code></a></td>'
        f"<td>{_prose(e.summary, e, places)}</td></tr>"
        for p in listed
        for e in sorted(p.entries, key=lambda e: e.name)
    )
    body = f"<h1>API reference</h1><table>{rows}</table><h2>All names</h2><table>{names}</table>"
    files["index.html"] = styled_page("API reference", body, PageParts(_STYLE))
    return files


def _page(page: Page, pages: Iterable[Page], places: Mapping[str, str]) -> str:
    links = "".join(
        f'<a href="{p.file}.html"{" class=here" if p is page else ""}>{escape(p.title)}</a>' for p in pages
    )
    contents = "".join(
        f"<strong>{escape(e.name)}</strong>"
        if e.kind == "class"
        else f'<a href="#{escape(e.name)}">{escape(e.name.rpartition(".")[2])}</a>'
        for e in page.entries
    )
    entries = "".join(_section(e, places) for e in page.entries)
    body = (
        f'<nav class="pages"><a href="index.html">API reference</a>{links}</nav><h1>{escape(page.title)}</h1>'
        f"<p>{_prose(page.about, None, places)}</p>"
    )
    article = f"<article>{entries}{page.body}</article>"
    body += (
        f'<div class="reference"><nav class="contents">{contents}</nav>{article}</div>'
        if contents
        else article
    )
    return styled_page(page.title, body, PageParts(_STYLE))


def _section(entry: Entry, places: Mapping[str, str]) -> str:
    name = escape(entry.name)
    head = f'<h3><a href="#{name}">{name}</a> <span class="quiet">{escape(entry.kind)}</span></h3>'
    call = highlight(entry.call, PythonLexer(), _FORMATTER) if entry.call else ""
    parts = []
    for paragraph in re.split(r"\n\s*\n", entry.text):
        if paragraph.startswith(">>>"):
            parts.append(
                highlight(re.sub(r"\s*# doctest:.*", "", paragraph), PythonConsoleLexer(), _FORMATTER)
            )
        elif paragraph:
            parts.append(f"<p>{_prose(paragraph, entry, places)}</p>")
    return f'<section id="{name}">{head}{call}{"".join(parts)}</section>'


def _prose(text: str, entry: Entry | None, places: Mapping[str, str]) -> str:
    """A paragraph of an entry: what stands in backquotes as code; public names and errors as links."""
    parts = []
    for i, piece in enumerate(text.split("`")):
        if i % 2:
            code, target = f"<code>{escape(piece)}</code>", _target(piece, entry, places)
            parts.append(f'<a href="{target}">{code}</a>' if target else code)
        else:
            parts.append(re.sub(r"\b[A-Z]\w+\b", lambda m: _error(m[0], places), escape(piece)))
    return "".join(parts)


def _target(code: str, entry: Entry | None, places: Mapping[str, str]) -> str | None:
    """Where a name is explained; None for the entry itself, its parameters, and what is no public name."""
    word = re.split(r"[(\s]", code, maxsplit=1)[0]
    if entry is not None and re.search(rf"\b{re.escape(word)}\b", f"{entry.call} {entry.name}"):
        return None
    beside = "" if entry is None else f"{entry.name.rpartition('.')[0]}."
    return next((places[n] for n in (word, beside + word, f"ts.{word}") if n in places), None)


def _error(word: str, places: Mapping[str, str]) -> str:
    target = places.get(f"ts.{word}", "")
    return f'<a href="{target}">{word}</a>' if target.startswith("errors.html") else word
