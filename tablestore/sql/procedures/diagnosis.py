"""check, doctor, mend, what_if: what is wrong with a table, what mends it, what other options would do."""

from __future__ import annotations

import pyarrow as pa

from tablestore.sql.procedures.procedure import (
    TABLE,
    Argument,
    Procedure,
    Values,
    options_of,
    success,
    table_of,
)
from tablestore.sql.result import Result
from tablestore.sql.session import Session


def _check(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    checked = table.check()
    rows = pa.table({"violation": pa.array([str(v) for v in checked], pa.string())})
    return Result(rows, message=f"{table.name}: {len(checked)} violations")


def _doctor(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    findings = table.inspect.doctor()
    return Result(findings.to_arrow(), message=f"{table.name}: {len(findings.to_arrow())} findings")


def _mend(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    dry_run = values["dry_run"] is not False
    return success(f"{table.name}{' (preview)' if dry_run else ''}", str(table.mend(dry_run=dry_run)))


def _what_if(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    answer = table.what_if(options_of(values["options"]))
    return success(f"{table.name} under {values['options']}", str(answer))


PROCEDURES = (
    Procedure("check", (TABLE,), _check, "Read a whole table anew: the invariants that do not hold."),
    Procedure("doctor", (TABLE,), _doctor, "What of a table is slow or at risk, and what to do."),
    Procedure(
        "mend",
        (TABLE, Argument("dry_run", bool)),
        _mend,
        "Do what the doctor prescribes; a preview unless dry_run is FALSE.",
    ),
    Procedure(
        "what_if",
        (TABLE, Argument("options", required=True)),
        _what_if,
        "How compaction would have gone under other options.",
    ),
)
