"""Which options exist and the status of each: implemented, ignored, refused or unknown.

Implemented ones are typed (`TableOptions`) or read as text (`READ_AS_TEXT`, `fields.…`, `file-index.…`);
ignored ones have a reason, refused ones say why. An unknown name is kept, since another engine may own it,
unless it looks like a misspelt one; as an option of one use, which nothing stores, it is refused.
`require_storable` is called when a table is created or altered, `require_usable` for options of one use,
`refusal_of_stored` before a table is read or written. `places_of` says where an option may be set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from functools import cache
from typing import Any

from tablestore.core.errors import InvalidOption, Unsupported
from tablestore.core.options.names import (
    ALIAS_FAMILIES,
    ALIASES,
    CHANGE_TRACKING,
    FIXED_WITH_DATA,
    OF_COLUMNS,
    PASSED_ON,
    PLACES,
    PLACES_OF_COLUMNS,
    PLACES_OF_FAMILIES,
    READ_AS_TEXT,
)
from tablestore.core.options.refused import (
    IGNORED,
    IGNORED_FAMILIES,
    REFUSED,
    REFUSED_FAMILIES,
    Ignored,
    Refused,
    Stored,
)
from tablestore.core.options.secrets import require_no_secrets
from tablestore.core.options.table_options import TableOptions, parsed
from tablestore.core.options.values import EVERYWHERE, STORED, Place, as_people_write

OURS = "tablestore."
IMPLEMENTED, IGNORED_, REFUSED_, UNKNOWN = "implemented", "ignored", "refused", "unknown"
_COLUMNS, _INDEXES, _SCHEMA = "fields.", "file-index.", "schema."
_OF_KEYS = (
    "merge-engine",
    "sequence.field",
    "aggregation.remove-record-on-delete",
    "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
    "record-level.expire-time",
)
_NOT_FOR_ONE_USE = {
    Place.CREATE: "is set when a table is created: it is part of the table's layout and cannot be set for one"
    " use",
    STORED: "is stored, as the table's rows and its other readers rely on it, and cannot be set for one use: "
    "table.alter(ts.set_options({{{key!r}: …}}))",
}


@dataclass(frozen=True, slots=True)
class OptionFact:
    """One option: `value` is in force and `default` holds where it is absent, both in units people write;
    `is_set`: whether the table stores it. `meaning` is the reason of ignored and refused ones. `places`:
    where it may be set, of create, alter and scan."""

    name: str
    value: str | None
    default: str | None
    is_set: bool
    status: str
    meaning: str
    places: str


@cache
def _typed() -> dict[str, Field[Any]]:
    return {key: f for f in fields(TableOptions) for key in (f.metadata["key"], *f.metadata["aliases"])}


@cache
def names() -> frozenset[str]:
    """Every option name that is known literally; names of columns and families are known by a prefix."""
    return frozenset([*_typed(), *READ_AS_TEXT, *IGNORED, *REFUSED, *ALIASES])


def fate(key: str) -> Field[Any] | Ignored | Refused | str | None:
    """What is known of an option: its typed field, why it is ignored or refused, its meaning where it is read
    as text, None for an unknown one."""
    tables: tuple[Mapping[str, Any], ...] = (_typed(), READ_AS_TEXT, IGNORED, REFUSED)
    for table in tables:
        if key in table:
            return table[key]
    if key in ALIASES:
        return f"becomes {ALIASES[key][0]!r}"
    if key.startswith(_INDEXES):
        return "a file index of columns"
    if key.startswith(CHANGE_TRACKING + "."):
        return "whether commits of this partition write changelog files"
    if key.startswith(_COLUMNS):
        return OF_COLUMNS.get(key.rsplit(".", 1)[1])
    if key.startswith(_SCHEMA) and (
        key[len(_SCHEMA) : len(_SCHEMA) + 1].isdecimal() or key.startswith("schema.watermark.")
    ):
        return "a computed column, or the watermark"
    for old, new in ALIAS_FAMILIES.items():
        if key.startswith(old):
            return f"becomes {new + key.removeprefix(old)!r}"
    families: tuple[Mapping[str, Any], ...] = (PASSED_ON, REFUSED_FAMILIES, IGNORED_FAMILIES)
    for family in families:
        for prefix, by_prefix in family.items():
            if key.startswith(prefix):
                return by_prefix
    return None


def places_of(key: str) -> Place:
    """Where an option may be set. What rows of the table rely on is set when it is created, or altered while
    it has no snapshot."""
    option = fate(key)
    if key in FIXED_WITH_DATA:
        return Place.CREATE
    if isinstance(option, Field):
        places: Place = option.metadata["places"]
        return places
    if isinstance(option, Ignored | Refused) or option is None:
        return EVERYWHERE
    if key in ALIASES:
        return places_of(ALIASES[key][0])
    for prefix, places in PLACES_OF_FAMILIES.items():
        if key.startswith(prefix):
            return places
    if key.startswith(_COLUMNS):
        return PLACES_OF_COLUMNS.get(key.rsplit(".", 1)[1], STORED)
    return PLACES.get(key, STORED)


def require_known(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for a name that looks like a misspelt one. Really foreign names pass."""
    for key in options:
        if fate(key) is not None:
            continue
        if key.startswith(OURS):
            _refuse_ours(key)
        near = _nearest(key)
        if near:
            raise InvalidOption(f"unknown option {key!r}; did you mean {near[0]!r}?")


def require_storable(options: Mapping[str, str], *, keyed: bool) -> None:
    """As `require_taken`, for options that a table is to store; also raises InvalidOption for options of one
    call, and for options of tables with a primary key where there is none (`keyed` false)."""
    require_taken(options)
    for key in options:
        if places_of(key) is Place.SCAN:
            raise InvalidOption(
                f"option {key!r} is for one call, not stored: table.branch(name), or 't$branch_name'"
            )
    for key in _OF_KEYS if not keyed else ():
        value = options.get(key, "").strip().lower()
        if value not in ("", "false", "deduplicate"):
            raise InvalidOption(f"option {key!r} is for tables with a primary key; this one has none")


def require_taken(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for a misspelt name, a value that Paimon would not read or a secret, Unsupported
    for a refused option."""
    require_no_secrets(options)
    require_known(options)
    for key, value in options.items():
        option = fate(key)
        if isinstance(option, Refused) and option.refuses(value):
            raise _unsupported(key, value, option)
        if isinstance(option, Ignored):
            parsed(key, value, option.parse)
        if isinstance(option, Field):
            parsed(key, value, option.metadata["strict"])


def require_usable(options: Mapping[str, str], stored: Mapping[str, str] | None = None) -> None:
    """As `require_taken`, for options of one use: unknown names are refused too, as nothing stores them, and
    those that stored rows rely on, unless the table has them so (`stored`)."""
    require_taken(options)
    for key, value in options.items():
        if Place.SCAN not in places_of(key) and not _as_stored(key, value, stored or {}):
            raise InvalidOption(f"option {key!r} {_NOT_FOR_ONE_USE[places_of(key)].format(key=key)}")
        if fate(key) is None:
            near = _nearest(key, cutoff=0.4)
            hint = f"the nearest: {', '.join(near)}" if near else "Table.options.describe() lists them"
            raise InvalidOption(f"unknown option {key!r}; {hint}")


def _as_stored(key: str, value: str, stored: Mapping[str, str]) -> bool:
    """Whether a table that stores these options has this one at that value."""
    option = fate(key)
    if not isinstance(option, Field):
        return stored.get(key) == value
    parse = option.metadata["parse"]
    return parsed(key, value, parse) == getattr(TableOptions.parse(stored), option.name)


def refusal_of_stored(options: Mapping[str, str], *, keyed: bool, writing: bool) -> Unsupported | None:
    """Why a table that stores these options cannot be read (`writing`: written), None if it can."""
    stopping = (Stored.READ, Stored.WRITE) if writing else (Stored.READ,)
    for key, value, refusal in _refused(options):
        if refusal.stored in stopping and (keyed or not refusal.keyed):
            return _unsupported(key, value, refusal)
    return None


def notes_on(options: Mapping[str, str]) -> Iterator[str]:
    """Texts on the stored options that this engine refuses, for `check`."""
    for key, value, refusal in _refused(options):
        yield f"{_unsupported(key, value, refusal).feature} is ignored: {refusal.why}"


def _unsupported(key: str, value: str, refused: Refused) -> Unsupported:
    """The error; it shows the value only where another one is accepted (others may be secrets)."""
    return Unsupported(f"{key} = {value}" if refused.unless else key, refused.why)


def _refused(options: Mapping[str, str]) -> Iterator[tuple[str, str, Refused]]:
    for key, value in options.items():
        option = fate(key)
        if isinstance(option, Refused) and option.refuses(value):
            yield key, value, option


def describe(options: Mapping[str, str] | None = None) -> list[OptionFact]:
    """Every known option by name, with its value under the stored `options`, and the unknown stored ones."""
    given = dict(options or {})
    listed = {f.metadata["key"] for f in fields(TableOptions)}
    listed |= {*READ_AS_TEXT, *IGNORED, *REFUSED, *given}
    for key, f in _typed().items():
        if key in given and key != f.metadata["key"]:
            listed.discard(f.metadata["key"] if f.metadata["key"] not in given else "")
    values = TableOptions.parse(given)
    return [_fact(key, given, values) for key in sorted(listed)]


def _fact(key: str, given: Mapping[str, str], values: TableOptions) -> OptionFact:
    option, text, places = fate(key), given.get(key), str(places_of(key))
    if isinstance(option, Field):
        default = None if option.default is MISSING else option.default
        parse = option.metadata["parse"]
        shown = as_people_write(getattr(values, option.name), parse)
        return OptionFact(
            key,
            shown,
            as_people_write(default, parse),
            key in given,
            IMPLEMENTED,
            option.metadata["meaning"],
            places,
        )
    if isinstance(option, Ignored):
        return OptionFact(key, text, None, key in given, IGNORED_, option.reason, places)
    if isinstance(option, Refused):
        but = f" (but {', '.join(option.unless)})" if option.unless else ""
        return OptionFact(key, text, None, key in given, REFUSED_, option.why + but, places)
    if option is None:
        return OptionFact(key, text, None, key in given, UNKNOWN, "kept for the engine that knows it", places)
    return OptionFact(key, text, None, key in given, IMPLEMENTED, option, places)


def _nearest(key: str, cutoff: float = 0.75) -> list[str]:
    """Known names similar to `key`."""
    if key.startswith(_COLUMNS) and key.count(".") > 1:
        start, _, name = key.rpartition(".")
        return [f"{start}.{n}" for n in get_close_matches(name, OF_COLUMNS, n=1, cutoff=0.8)]
    return get_close_matches(key, names(), n=3, cutoff=cutoff)


def _refuse_ours(key: str) -> None:
    """Raise InvalidOption for an unknown key with our prefix: no other engine would read it."""
    ours = sorted(k for k in names() if k.startswith(OURS))
    near = get_close_matches(key.removeprefix(OURS), [k.removeprefix(OURS) for k in ours], n=1, cutoff=0.6)
    there = f"did you mean {OURS + near[0]!r}?" if near else f"there are {', '.join(ours)}"
    raise InvalidOption(f"unknown option {key!r}; {there}")
