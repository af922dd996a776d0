"""Packages that only some tables or calls need: imported when first used, each with its extra.

An extra is the name in brackets: `pip install 'tablestore-workbench[orc]'`. What every table needs is
declared without one and imported at the top of a file as usual. Used by every module that needs such a
package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from tablestore.core.errors import MissingPackage

DISTRIBUTION = "tablestore-workbench"
EXTRA_OF = {
    "confluent_kafka": "kafka",
    "datasketches": "sketches",
    "duckdb": "sql",
    "google.protobuf": "fluss",
    "google_crc32c": "fluss",
    "hmsclient": "hive",
    "numba": "numba",
    "obstore": "s3",
    "opentelemetry.sdk": "opentelemetry",
    "pandas": "pandas",
    "polars": "polars",
    "prometheus_client": "metrics",
    "psycopg": "postgres",
    "pymysql": "mysql",
    "pyorc": "orc",
    "pyspark": "spark",
    "pyiceberg": "iceberg",
    "rocksdict": "fluss",
    "sqlglot": "sql",
    "tenacity": "s3",
    "thrift": "hive",
}
"""The extra of each such package."""


def required(module: str, *, by: str) -> ModuleType:
    """The module, imported now; raises MissingPackage if it is not installed. `by` names what needs it."""
    imported = available(module)
    if imported is None:
        package = package_of(module)
        raise MissingPackage(by, f"{package} is missing: {remedy(EXTRA_OF[package])}")
    return imported


def available(module: str) -> ModuleType | None:
    """The module, imported now; None if its package is missing."""
    if sys.modules.get(module) is not None:
        return import_module(module)  # and not what another thread has imported a part of by now
    package = package_of(module)
    try:
        import_module(package)
    except ModuleNotFoundError as e:
        if e.name not in (
            package,
            package.partition(".")[0],
        ):  # it is installed, and one of its own imports is missing
            raise
        return None
    return import_module(module)


def package_of(module: str) -> str:
    """The package of an extra that a module belongs to: `google.protobuf` of `google.protobuf.message`."""
    names = [name for name in EXTRA_OF if module == name or module.startswith(f"{name}.")]
    return max(names, key=len, default=module.partition(".")[0])


def remedy(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
