"""Options of a catalog, under Paimon's names; parsed once.

`lock.enabled` unset means: locks where the warehouse is in an object store and the catalog has them, as in
Paimon. Python spellings (`catalog_key=`, `lock_enabled=`) mean the dashed and dotted ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from tablestore.core.errors import InvalidOption, Unsupported
from tablestore.core.options.names import ROOT_PATH, TABLE_DEFAULTS, of_new_tables
from tablestore.core.options.refused import REFUSED
from tablestore.core.options.rules import require_known
from tablestore.core.options.table_options import as_text
from tablestore.core.options.values import boolean, duration_ms
from tablestore.io.s3_options import PACKED, is_s3_key, pack, require_s3_key, unpacked

METASTORES = ("filesystem", "jdbc", "hive")
_EVERY = frozenset(METASTORES)
# Option → the catalogs that have it.
_KNOWN = {
    **dict.fromkeys(
        (
            "warehouse",
            "metastore",
            "lock.enabled",
            "lock.type",
            "lock-acquire-timeout",
            "lock-check-max-sleep",
            "case-sensitive",
            "sync-all-properties",
            "table.type",
            PACKED,
        ),
        _EVERY,
    ),
    "uri": frozenset(["jdbc", "hive"]),
    **dict.fromkeys(
        ("catalog-key", "lock-key-max-length", "jdbc.user", "jdbc.password"), frozenset(["jdbc"])
    ),
}
_CACHES = "caches of Java's catalogs; here a process caches manifests, which never change"
_HADOOP = "of Java's Hive and Hadoop clients"
_ENGINE = "of an engine's catalog, not of the tables in it"
# Options and, with a dot or dash at their end, families of Paimon's catalogs without effect here: why, and of
# which catalogs they are.
_IGNORED = {
    **dict.fromkeys(("cache-enabled", "cache.", "local-cache.", "file-io.allow-cache"), (_CACHES, _EVERY)),
    **dict.fromkeys(
        (
            "default-database",
            "defaultDatabase",
            "disable-create-table-in-default-db",
            "format-table.enabled",
            "catalog-options-table.enabled",
            "lineage-use-catalog-key-as-identifier",
        ),
        (_ENGINE, _EVERY),
    ),
    "resolving-file-io.enabled": ("each location is reached by its scheme", _EVERY),
    "client-pool-size": ("a connection is made when one is needed", frozenset(["jdbc", "hive"])),
    **dict.fromkeys(
        (
            "hive.",
            "hadoop.",
            "hive-conf-dir",
            "hadoop-conf-dir",
            "metastore.client.class",
            "client-pool-cache.",
            "alter-table-cascade",
            "location-in-properties",
        ),
        (_HADOOP, frozenset(["hive"])),
    ),
}
_SPELLED = {re.sub(r"[.-]", "_", key): key for key in (*_KNOWN, *_IGNORED)}
_OLD_NAMES = {"allow-upper-case": "case-sensitive"}


@dataclass(frozen=True, slots=True)
class LockOptions:
    """Options of catalog locks; times in milliseconds."""

    enabled: bool | None = None
    acquire_ms: int = 8 * 60_000
    check_max_sleep_ms: int = 8_000


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The options that `connect` takes. `raw` keeps every option as text; a pickle contains it packed."""

    metastore: str = "filesystem"
    warehouse: str | None = None
    uri: str | None = field(default=None, repr=False)  # may hold a password
    catalog_key: str = "jdbc"
    lock: LockOptions = LockOptions()
    lock_key_length: int = 255
    case_sensitive: bool | None = None
    sync_properties: bool = True
    external: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    raw: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> CatalogOptions:
        """The typed options. Raises InvalidOption for wrong values, for unknown names and for options of
        another kind of catalog."""
        given = {k: v for k, v in options.items() if v is not None}
        raw = {_plain(k): v for k, v in as_text(given).items()}
        metastore = raw.get("metastore", "filesystem")
        if metastore == "rest":
            raise Unsupported("metastore rest", f"there are {', '.join(METASTORES)}")
        if metastore not in METASTORES:
            raise InvalidOption(
                f"option 'metastore' is {metastore!r}; it must be one of {', '.join(METASTORES)}"
            )
        for key in raw:
            _require_known(key, metastore)
        if raw.get("lock.type", metastore) != metastore:
            raise Unsupported(f"lock.type {raw['lock.type']!r}", f"metastore {metastore} has its own locks")
        enabled = _parsed(raw, "lock.enabled", boolean, None)
        return cls(
            metastore=metastore,
            warehouse=raw.get("warehouse"),
            uri=raw.get("uri"),
            catalog_key=raw.get("catalog-key", "jdbc"),
            lock=LockOptions(
                enabled,
                _parsed(raw, "lock-acquire-timeout", duration_ms, 8 * 60_000),
                _parsed(raw, "lock-check-max-sleep", duration_ms, 8_000),
            ),
            lock_key_length=_parsed(raw, "lock-key-max-length", int, 255),
            case_sensitive=_parsed(raw, "case-sensitive", boolean, None),
            sync_properties=_parsed(raw, "sync-all-properties", boolean, True),
            external=raw.get("table.type", "managed").lower() == "external",
            user=raw.get("jdbc.user"),
            password=raw.get("jdbc.password"),
            raw=raw,
        )

    def __reduce__(self) -> Any:
        return _parsed_again, (pack(self.raw),)

    @property
    def table_defaults(self) -> dict[str, str]:
        """Options of every new table: those with the prefix `table-default.` or `table-storage.`, without
        it."""
        given = [(k, v) for p in TABLE_DEFAULTS for k, v in self.raw.items() if k.startswith(p)]
        return dict(of_new_tables(key, value) for key, value in given)


def _parsed_again(packed: bytes) -> CatalogOptions:
    return CatalogOptions.parse(unpacked(packed))


def _plain(key: str) -> str:
    """The dashed name of an option."""
    if key.startswith("s3_"):
        key = "s3." + key[3:].replace("_", "-")
    return _OLD_NAMES.get(key, _SPELLED.get(key, key))


def _require_known(key: str, metastore: str) -> None:
    """Raise InvalidOption for an option that no catalog has, or only another kind of catalog."""
    if is_s3_key(key):
        require_s3_key(key)
        return
    if key in (ROOT_PATH, "root-path"):
        raise Unsupported(key, REFUSED[ROOT_PATH].why)
    if key.startswith(TABLE_DEFAULTS):
        require_known(dict([of_new_tables(key, "")]))
        return
    family = next((f for f in _IGNORED if f.endswith(".") and key.startswith(f)), "")
    kinds = _KNOWN.get(key) or _IGNORED.get(key, _IGNORED.get(family, ("", None)))[1]
    if kinds is None:
        keys = [k for k, of in _KNOWN.items() if metastore in of and k != PACKED]
        near = get_close_matches(key, keys, n=3, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(keys))}"
        raise InvalidOption(f"unknown catalog option {key!r}; {hint}")
    if metastore not in kinds:
        raise InvalidOption(
            f"catalog option {key!r} is for metastore {' and '.join(sorted(kinds))}; this one is {metastore}"
        )


def _parsed(raw: Mapping[str, str], key: str, parse: Any, default: Any) -> Any:
    if key not in raw:
        return default
    try:
        return parse(raw[key])
    except ValueError as e:
        raise InvalidOption(f"option {key!r} is {raw[key]!r}; it must be {e}") from None
