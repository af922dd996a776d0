"""A query made ready: checked, its tables found and named, and what each of them must give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tablestore.format.schema import TableSchema
from tablestore.sql.names import Name
from tablestore.sql.query.pushdown import Read, reads, require_columns
from tablestore.sql.query.tables import Occurrence, occurrences
from tablestore.sql.query.translation import require_allowed, with_names
from tablestore.table.scan import Scan
from tablestore.table.system import table_schema

if TYPE_CHECKING:
    from tablestore.sql.session import Session

_VIEW = "__table_{}"


@dataclass(frozen=True, slots=True)
class Source:
    """One occurrence of a table: `view` is its name in the tree, `read` what it must give."""

    view: str
    name: Name
    whole: Any
    read: Read

    def scan(self) -> Any:
        """The rows, as a scan; `whole` is the scan of all of them."""
        scan = self.whole.select(list(self.read.columns)) if self.read.columns else self.whole
        scan = scan if self.read.where is None else scan.filter(self.read.where)
        return scan if self.read.limit is None else scan.head(self.read.limit)


@dataclass(frozen=True, slots=True)
class Query:
    """A tree whose tables are `sources`."""

    tree: exp.Expression
    sources: tuple[Source, ...]


def prepared(session: Session, tree: exp.Expression, text: str) -> Query:
    """The query, ready to run; `tree` is not changed. Raises what a query may not have, and NotFound, with
    their places in the text."""
    require_allowed(tree, text)
    tree = tree.copy()
    found = occurrences(session, tree, text)
    require_allowed(tree, text)  # views as well
    scans = _scans(found)
    schemas = [schema_of(scan) for scan in scans]
    if found:
        require_columns(tree, schemas, text)
    views = [_VIEW.format(number) for number in range(len(found))]
    for view, one in zip(views, found, strict=True):
        _rename(tree, one, view)
    tree = with_names(tree)
    asked = reads(tree, views, schemas) if found else []
    parts = zip(views, found, scans, asked, strict=True)
    return Query(tree, tuple(Source(view, one.name, scan, read) for view, one, scan, read in parts))


def _scans(found: Sequence[Occurrence]) -> list[Any]:
    """A scan of every occurrence; those of one table see one snapshot."""
    known: dict[tuple[str, ...], Any] = {}
    scans = []
    for one in found:
        as_it_is = not one.node.args.get("version") and not one.node.args.get("hints")
        scan = known.get(one.name.parts) if as_it_is else None
        scan = one.table.scan() if scan is None else scan
        if as_it_is:
            known[one.name.parts] = scan
        scans.append(scan)
    return scans


def schema_of(scan: Any) -> TableSchema:
    """The columns that a scan can give."""
    return scan.store.schema if isinstance(scan, Scan) else table_schema(scan.schema)


def _rename(tree: exp.Expression, one: Occurrence, view: str) -> None:
    """The occurrence under the name of its view; columns that name its database no longer do."""
    node, parts = one.node, one.name.parts
    alias = node.alias_or_name
    for column in tree.find_all(exp.Column) if not node.alias and len(parts) > 1 else ():
        named = tuple(p.name for p in column.parts[:-1])
        if len(named) > 1 and named == parts[-len(named) :]:
            column.set("db", None)
            column.set("catalog", None)
    for part in ("db", "catalog", "version", "hints"):
        node.set(part, None)
    node.set("this", exp.to_identifier(view, quoted=True))
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
