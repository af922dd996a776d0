"""The health of the machine, or of the tables at a path."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tablestore as ts
from tablestore.cli.doctor import machine
from tablestore.cli.places import NotOpened, location_of, one_line


@dataclass(frozen=True, slots=True)
class TableDiagnosis:
    """What is said of one table: its damage, or that it cannot be mended, else the doctor's findings."""

    table: str
    broken: bool
    text: str


def examined(
    path: str, options: Mapping[str, str], *, mend: bool, readers: bool, program: str
) -> list[TableDiagnosis]:
    """The health of the table at `path`, or of all tables of a warehouse or database there; with `readers`
    who would read it wrongly.

    Raises NotOpened where there is none.
    """
    place = location_of(path)
    try:
        return [_table(place, options, mend=mend, readers=readers, program=program)]
    except ts.NotFound as error:
        tables = _tables_of(place, options)
        if not tables:
            raise NotOpened(str(error)) from None
    return [_table(each, options, mend=mend, readers=readers, program=program) for each in tables]


def _tables_of(place: str, options: Mapping[str, Any]) -> list[str]:
    """The places of the tables of a warehouse or database, also of those that cannot be opened."""
    warehouse, _, last = place.rstrip("/").rpartition("/")
    database = last.removesuffix(".db") if last.endswith(".db") else None
    try:
        lake = ts.connect(warehouse if database else place, **dict(options))
        names = [name.partition(".") for name in lake.tables()]
    except ts.TablestoreError:
        return []
    return [f"{lake.warehouse}/{db}.db/{table}" for db, _, table in names if database in (None, db)]


def _table(
    place: str, options: Mapping[str, str], *, mend: bool, readers: bool, program: str
) -> TableDiagnosis:
    try:
        if readers:
            return TableDiagnosis(place, False, ts.open(place, options=options).inspect.readers().text)
        repair = ts.mend(place, dry_run=not mend, options=options)
    except ts.Corrupt as error:
        ill = "is broken" if readers else "cannot be mended"
        return TableDiagnosis(place, True, f"{place}: {ill}\n  {error}")
    if repair:
        stays = bool(repair.remaining) or not mend
        more = (
            f"\n  to do it: {program} doctor {shlex.quote(place)} --mend"
            if not mend and repair.changes
            else ""
        )
        return TableDiagnosis(place, stays, repair.text + more)
    return TableDiagnosis(place, False, ts.open(place, options=options).inspect.doctor().text)


def report(options: argparse.Namespace) -> int:
    """Print the health of the tables at the path; 1 if something stays broken or nothing can be opened."""
    try:
        examination = examined(
            options.path,
            dict(options.option),
            mend=options.mend,
            readers=options.readers,
            program=options.door.program,
        )
    except (NotOpened, OSError, ValueError, LookupError) as error:
        print(f"{options.door.program} doctor: {one_line(error)}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([asdict(each) for each in examination], indent=1))
    else:
        print("\n\n".join(each.text for each in examination))
    return int(any(each.broken for each in examination))


def main(options: argparse.Namespace) -> int:
    """Print the findings; 1 if something needed is missing or something stays broken."""
    if options.path is None:
        return machine.report(machine.examine(), as_json=options.json)
    return report(options)
