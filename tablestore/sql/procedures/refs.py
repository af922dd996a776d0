"""Tags, branches, rollbacks and consumers."""

from __future__ import annotations

import re

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.sql.procedures.procedure import TABLE, Argument, Procedure, Values, success, table_of
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.table.table import Table

_TAG, _RETAINED = Argument("tag", required=True), Argument("time_retained")
_SNAPSHOT = Argument("snapshot_id", int, aliases=("snapshot",))


def _create_tag(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    table.tags.create(values["tag"], values["snapshot_id"], retain=values["time_retained"])
    return success(f"tag {values['tag']} of {table.name}")


def _replace_tag(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    if values["tag"] not in table.tags:
        raise NotFound.among("tag", values["tag"], table.tags.names())
    snapshot, retained = values["snapshot_id"], values["time_retained"]
    table.tags.create(values["tag"], snapshot, retain=retained, replace=True)
    return success(f"tag {values['tag']} of {table.name} is replaced")


def _tag_from_time(session: Session, values: Values) -> Result:
    """The first snapshot that is later."""
    table = table_of(session, values)
    rows = table.inspect.snapshots().to_pylist()
    later = [r["snapshot_id"] for r in rows if r["commit_time"].timestamp() * 1000 > values["timestamp"]]
    return _tag_first(table, values, later, f"commit time after {values['timestamp']}")


def _tag_from_watermark(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    rows = table.inspect.snapshots().to_pylist()
    later = [r["snapshot_id"] for r in rows if (r["watermark"] or -1) > values["watermark"]]
    return _tag_first(table, values, later, f"watermark above {values['watermark']}")


def _tag_first(table: Table, values: Values, snapshot_ids: list[int], what: str) -> Result:
    if not snapshot_ids:
        raise NotFound(f"{table.name} has no snapshot of a {what}")
    table.tags.create(values["tag"], min(snapshot_ids), retain=values["time_retained"])
    return success(f"tag {values['tag']} of {table.name} at snapshot {min(snapshot_ids)}")


def _delete_tag(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    names = [name.strip() for name in values["tag"].split(",")]
    there = [name for name in names if name in table.tags]
    for name in there:
        table.tags.delete(name)
    missing = "".join(f", there was no {name!r}" for name in names if name not in there)
    return success(f"{len(there)} tags of {table.name} are deleted{missing}")


def _rename_tag(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    table.tags.rename(values["tag"], to=values["target_tag"])
    done = f"Rename [{values['tag']}] to [{values['target_tag']}] successfully."
    return success(f"tag {values['tag']} of {table.name} is {values['target_tag']}", done)


def _expire_tags(session: Session, values: Values) -> Result:
    gone = table_of(session, values).tags.expire()
    return Result.of_texts({"expired_tags": gone}, message=f"{len(gone)} tags expired")


def _rollback_to(session: Session, values: Values) -> Result:
    if (values["tag"] is None) == (values["snapshot_id"] is None):
        raise InvalidRequest("rollback_to takes a tag or a snapshot_id")
    return _rolled_back(table_of(session, values), tag=values["tag"], snapshot=values["snapshot_id"])


def _rollback_to_timestamp(session: Session, values: Values) -> Result:
    return _rolled_back(table_of(session, values), timestamp=values["timestamp"])


def _rolled_back(table: Table, **to: object) -> Result:
    before = table.scan().snapshot
    done = table.rollback(**to)  # type: ignore[arg-type]  # one of its keywords
    row = {
        "previous_snapshot_id": [None if before is None else before.id],
        "current_snapshot_id": [done.snapshot],
    }
    return Result(pa.table(row), message=f"{table.name} is at snapshot {done.snapshot}")


def _create_branch(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    table.branches.create(values["branch"], values["tag"])
    return success(f"branch {values['branch']} of {table.name}")


def _delete_branch(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    for name in values["branch"].split(","):
        table.branches.delete(name.strip())
    return success(f"branch {values['branch']} of {table.name} is deleted")


def _rename_branch(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    table.branches.rename(values["from_branch"], values["to_branch"])
    return success(f"branch {values['from_branch']} of {table.name} is {values['to_branch']}")


def _fast_forward(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    table.branches.fast_forward(values["branch"])
    return success(f"{table.name} is at branch {values['branch']}")


def _reset_consumer(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    if values["next_snapshot_id"] is None:
        table.consumers.delete(values["consumer_id"])
        return success(f"consumer {values['consumer_id']} of {table.name} is forgotten")
    table.consumers.reset(values["consumer_id"], values["next_snapshot_id"])
    return success(f"consumer {values['consumer_id']} goes on at snapshot {values['next_snapshot_id']}")


def _clear_consumers(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    try:
        wanted = re.compile(values["including_consumers"] or ".*")
        spared = re.compile(values["excluding_consumers"] or "(?!)")
    except re.error as e:
        raise InvalidRequest(f"no pattern of names: {e}") from None
    names = [n for n in table.consumers.names() if wanted.fullmatch(n) and not spared.fullmatch(n)]
    for name in names:
        table.consumers.delete(name)
    return success(f"{len(names)} consumers of {table.name} are forgotten")


_BRANCH = Argument("branch", required=True)

PROCEDURES = (
    Procedure(
        "create_tag",
        (TABLE, _TAG, _SNAPSHOT, _RETAINED),
        _create_tag,
        "Name a snapshot, the newest by default, which the name keeps.",
    ),
    Procedure(
        "create_tag_from_timestamp",
        (TABLE, _TAG, Argument("timestamp", int, required=True), _RETAINED),
        _tag_from_time,
        "Name the first snapshot that was committed after a time, in milliseconds.",
    ),
    Procedure(
        "create_tag_from_watermark",
        (TABLE, _TAG, Argument("watermark", int, required=True), _RETAINED),
        _tag_from_watermark,
        "Name the first snapshot whose watermark is above one, in milliseconds.",
    ),
    Procedure("delete_tag", (TABLE, _TAG), _delete_tag, "Delete tags, separated by commas."),
    Procedure(
        "rename_tag",
        (
            TABLE,
            Argument("tag", required=True, aliases=("tagName", "tag_name")),
            Argument("target_tag", required=True, aliases=("targetTagName", "target_tag_name")),
        ),
        _rename_tag,
        "Give a tag another name.",
    ),
    Procedure(
        "replace_tag",
        (TABLE, _TAG, _SNAPSHOT, _RETAINED),
        _replace_tag,
        "Let a tag name another snapshot, the newest by default, and keep it for another time.",
    ),
    Procedure("expire_tags", (TABLE,), _expire_tags, "Delete the tags whose time is over."),
    Procedure(
        "rollback_to",
        (TABLE, Argument("tag"), _SNAPSHOT),
        _rollback_to,
        "Go back to a tag or snapshot: what came later is removed.",
    ),
    Procedure(
        "rollback_to_timestamp",
        (TABLE, Argument("timestamp", int, required=True)),
        _rollback_to_timestamp,
        "Go back to the newest snapshot at a time, in milliseconds.",
    ),
    Procedure(
        "create_branch",
        (TABLE, _BRANCH, Argument("tag")),
        _create_branch,
        "Make a branch, empty or from a tag.",
    ),
    Procedure("delete_branch", (TABLE, _BRANCH), _delete_branch, "Delete branches, separated by commas."),
    Procedure(
        "rename_branch",
        (TABLE, Argument("from_branch", required=True), Argument("to_branch", required=True)),
        _rename_branch,
        "Give a branch another name.",
    ),
    Procedure("fast_forward", (TABLE, _BRANCH), _fast_forward, "Let the table be what a branch of it is."),
    Procedure(
        "reset_consumer",
        (TABLE, Argument("consumer_id", required=True), Argument("next_snapshot_id", int)),
        _reset_consumer,
        "Let a consumer go on at a snapshot; without one, forget it.",
    ),
    Procedure(
        "clear_consumers",
        (TABLE, Argument("including_consumers"), Argument("excluding_consumers")),
        _clear_consumers,
        "Forget the consumers whose names match the regular expressions.",
    ),
)
