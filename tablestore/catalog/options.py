"""Options of a catalog, under Paimon's names; parsed once.

`lock.enabled` unset means: locks where the warehouse is in an object store and the catalog has them, as in
Paimon. Python spellings (`catalog_key=`, `lock_enabled=`) are taken for the dashed and dotted ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from tablestore.errors import InvalidOption, Unsupported
from tablestore.io.s3_options import PREFIXES, is_s3_key, pack, unpacked
from tablestore.option_values import boolean, duration_ms
from tablestore.options import as_text

METASTORES = ("filesystem", "jdbc", "hive")
TABLE_DEFAULTS = ("table-default.", "table-storage.")
_KNOWN = (
    "warehouse",
    "metastore",
    "uri",
    "catalog-key",
    "lock.enabled",
    "lock-acquire-timeout",
    "lock-check-max-sleep",
    "lock-key-max-length",
    "case-sensitive",
    "sync-all-properties",
    "table.type",
    "jdbc.user",
    "jdbc.password",
    "cache-enabled",
    "client-pool-size",
)
_SPELLED = {re.sub(r"[.-]", "_", key): key for key in _KNOWN}
_OLD_NAMES = {"allow-upper-case": "case-sensitive"}
_PASSED = (*PREFIXES, *TABLE_DEFAULTS, "jdbc.", "hive.", "hadoop.", "fs.", "cache.", "tablestore.")


@dataclass(frozen=True, slots=True)
class LockOptions:
    """How a lock is waited for."""

    enabled: bool | None = None
    acquire_ms: int = 8 * 60_000
    check_max_sleep_ms: int = 8_000


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """What `connect` was told. `given` keeps every option as text; a pickle holds it packed."""

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
    given: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> CatalogOptions:
        """Raises InvalidOption for values that cannot be used and for near misses of known names."""
        given = {_plain(k): v for k, v in as_text(options).items()}
        metastore = given.get("metastore", "filesystem")
        if metastore == "rest":
            raise Unsupported("metastore rest", f"there are {', '.join(METASTORES)}")
        if metastore not in METASTORES:
            raise InvalidOption(
                f"option 'metastore' is {metastore!r}; it must be one of {', '.join(METASTORES)}"
            )
        enabled = _parsed(given, "lock.enabled", boolean, None)
        return cls(
            metastore=metastore,
            warehouse=given.get("warehouse"),
            uri=given.get("uri"),
            catalog_key=given.get("catalog-key", "jdbc"),
            lock=LockOptions(
                enabled,
                _parsed(given, "lock-acquire-timeout", duration_ms, 8 * 60_000),
                _parsed(given, "lock-check-max-sleep", duration_ms, 8_000),
            ),
            lock_key_length=_parsed(given, "lock-key-max-length", int, 255),
            case_sensitive=_parsed(given, "case-sensitive", boolean, None),
            sync_properties=_parsed(given, "sync-all-properties", boolean, True),
            external=given.get("table.type", "managed").lower() == "external",
            user=given.get("jdbc.user"),
            password=given.get("jdbc.password"),
            given=given,
        )

    def __reduce__(self) -> Any:
        return _parsed_again, (pack(self.given),)

    @property
    def table_defaults(self) -> dict[str, str]:
        """Options every new table starts from: what follows `table-default.`."""
        return {
            key.removeprefix(prefix): value
            for prefix in TABLE_DEFAULTS
            for key, value in self.given.items()
            if key.startswith(prefix)
        }


def _parsed_again(packed: bytes) -> CatalogOptions:
    return CatalogOptions.parse(unpacked(packed))


def _plain(key: str) -> str:
    """The dashed name of an option; raises InvalidOption naming the one that was meant."""
    if key.startswith("s3_"):
        key = "s3." + key[3:].replace("_", "-")
    key = _OLD_NAMES.get(key, _SPELLED.get(key, key))
    if key in _KNOWN or is_s3_key(key) or key.startswith(_PASSED):
        return key
    near = get_close_matches(key, _KNOWN, n=1, cutoff=0.75)
    if near:
        raise InvalidOption(f"unknown catalog option {key!r}; did you mean {near[0]!r}?")
    return key


def _parsed(given: Mapping[str, str], key: str, parse: Any, default: Any) -> Any:
    if key not in given:
        return default
    try:
        return parse(given[key])
    except ValueError as e:
        raise InvalidOption(f"option {key!r} is {given[key]!r}; it must be {e}") from None
