"""No option of Paimon is silently without effect on rows or layout: it is read, refused, or named here."""

from __future__ import annotations

import csv
import re
from dataclasses import fields
from pathlib import Path

from tablestore.options import TableOptions

ROOT = Path(__file__).parents[1]
ALL = ROOT / "tests" / "golden" / "options" / "paimon-options.tsv"
LSM = (
    "compaction.",
    "num-",
    "changelog-",
    "merge-engine",
    "sequence.",
    "full-compaction.",
    "lookup-",
    "lookup.",
)
LSM += (
    "partial-update.",
    "aggregation.",
    "fields.",
    "deletion-vector",
    "force-lookup",
    "write-only",
    "commit.",
)
FASTER = "memory, disk or threads of engines, not what is written"
WITHOUT_EFFECT = {
    "commit.force-compact": "writers always wait for the compactions that their commit needs",
    "commit.callbacks": "classes of the JVM",
    "commit.callback.#.param": "classes of the JVM",
    "commit.user-prefix": "users are named by the caller",
    "delete.force-produce-changelog": "of SQL engines",
    "fields.default-aggregate-function": "read from the schema by the functions",
    "lookup.blob-as-descriptor": "BLOB columns are refused",
    "lookup.continuous.discovery-interval": "of Flink's lookup joins",
    **dict.fromkeys(
        (
            "lookup.cache-file-retention",
            "lookup.cache-max-disk-size",
            "lookup.cache-rows",
            "lookup.cache-spill-compression",
            "lookup.cache.bloom.filter.enabled",
            "lookup.cache.bloom.filter.fpp",
            "lookup.hash-load-factor",
            "lookup.merge-buffer-size",
            "lookup.merge-records-threshold",
            "lookup.remote-file.enabled",
            "lookup.remote-file.level-threshold",
        ),
        FASTER,
    ),
}


def read_by_the_engine() -> set[str]:
    """Keys of options that some module apart from their definitions reads."""
    modules = [p for p in (ROOT / "tablestore").rglob("*.py") if not p.name.startswith("option_")]
    text = "\n".join(p.read_text() for p in modules)
    by_field = {f.metadata["key"] for f in fields(TableOptions) if re.search(rf"\.{f.name}\b", text)}
    return by_field | set(re.findall(r"[\"']([a-z0-9-]+(?:\.[a-z0-9-]+)+)[\"']", text))


def test_every_option_of_the_tree_is_read_or_known_to_change_nothing() -> None:
    with ALL.open() as lines:
        names = {row[0] for row in csv.reader(lines, delimiter="\t")}
    wanted = {name for name in names if name.startswith(LSM)}
    assert len(wanted) > 60
    assert wanted - read_by_the_engine() - set(WITHOUT_EFFECT) == set()
