"""How files of one bucket become splits, by each rule once: `cases/splits.txt`.

`L5 [10,19] 0-9 40b deletes=1`: level, keys, sequence numbers, size, retractions (`?`: not counted). Files are
f0, f1, … The last line has the options; by default the target is so small that no groups are packed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.manifest import ADD, ManifestEntry
from tablestore.format.schema import create_schema
from tablestore.format.types.arrow_types import BIGINT, DataField
from tablestore.meta.entries import Entries
from tablestore.read.scan.split_generator import splits
from tests import text_cases
from tests.lsm.trees import parse_file

CASES = Path(__file__).parent / "cases" / "splits.txt"
SCHEMA = create_schema(
    (DataField(0, "k", BIGINT),),
    primary_key=("k",),
    partition_by=(),
    options={"bucket": "1"},
    comment=None,
    time_millis=0,
)
NAMES = {"target": "source.split.target-size", "cost": "source.split.open-file-cost"}


def outcome(lines: list[str]) -> str:
    words = lines[-1].split()[1:]
    set_options = text_cases.settings([w for w in words if "=" in w])
    options = {"bucket": "1", "source.split.target-size": "1b", "source.split.open-file-cost": "1b"}
    options |= {NAMES.get(name, name): value for name, value in set_options.items()}
    actual = splits(
        Entries.of(ManifestEntry(ADD, b"", 0, 1, parse_file(f, f"f{i}")) for i, f in enumerate(lines[:-1])),
        snapshot_id=1,
        schema=replace(SCHEMA, primary_keys=()) if "keyless" in words else SCHEMA,
        options=TableOptions.parse(options),
        by_kind="by-kind" in words,
    )
    return "\n".join(
        f"{'+'.join(f.file_name for f in s.files)}: {'raw' if s.raw else 'merged'}" for s in actual
    )


def test_every_rule_of_split_packing(rewrite: bool) -> None:
    text_cases.check(CASES, outcome, rewrite=rewrite)
