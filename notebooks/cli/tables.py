"""`doctor PATH`: is a table sound, or each of a warehouse, what would mend it, and what is lost by that.

Damage comes first: what is broken, and with `--mend` it is put aside. A sound table is then looked at by the
doctor. Nothing is changed without `--mend`. Exit code 1 if something stays broken.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tablestore as ts
from notebooks.cli.open import NotOpened, location_of


@dataclass(frozen=True, slots=True)
class Health:
    """What is said of one table: its damage, or that it cannot be mended, else the doctor's findings."""

    table: str
    broken: bool
    text: str


def examined(path: str, options: Mapping[str, str], *, mend: bool) -> list[Health]:
    """The health of the table at `path`, or of all tables of a warehouse or database there.

    Raises NotOpened where there is none.
    """
    place = location_of(path)
    try:
        return [_table(place, options, mend=mend)]
    except ts.NotFound as error:
        tables = _tables_of(place, options)
        if not tables:
            raise NotOpened(str(error)) from None
    return [_table(each, options, mend=mend) for each in tables]


def _tables_of(place: str, options: Mapping[str, Any]) -> list[str]:
    """The places of the tables of a warehouse or database, also of those that cannot be opened."""
    warehouse, _, last = place.rstrip("/").rpartition("/")
    one = last.removesuffix(".db") if last.endswith(".db") else None
    try:
        lake = ts.connect(warehouse if one else place, **dict(options))
        names = [name.partition(".") for name in lake.tables()]
    except ts.TablestoreError:
        return []
    return [f"{lake.warehouse}/{db}.db/{table}" for db, _, table in names if one in (None, db)]


def _table(place: str, options: Mapping[str, str], *, mend: bool) -> Health:
    try:
        repair = ts.mend(place, dry_run=not mend, options=options)
    except ts.Corrupt as error:
        return Health(place, True, f"{place}: cannot be mended\n  {error}")
    if repair:
        stays = bool(repair.remaining) or not mend
        more = (
            f"\n  to do it: ./workbench doctor {shlex.quote(place)} --mend"
            if not mend and repair.changes
            else ""
        )
        return Health(place, stays, repair.text + more)
    return Health(place, False, ts.open(place, options=options).inspect.doctor().text)


def main(path: str, options: Mapping[str, str], *, mend: bool, as_json: bool) -> int:
    """Print the health of what is at `path`."""
    found = examined(path, options, mend=mend)
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=1))
    else:
        print("\n\n".join(each.text for each in found))
    return int(any(each.broken for each in found))
