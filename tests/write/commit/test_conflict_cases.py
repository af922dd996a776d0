"""What a commit meets in the files that are live, by each rule once: `cases/conflicts.txt`.

`live` and, of the commit, `+` and `-` name a data file: `a L5 [0,9]`, in bucket 0 of 1 unless it says
`bucket=0/2`. `live-index`, `+index` and `-index` name an index file: `i` or, with deletion vectors of data
files, `i marks=a,b`. Switches: `append` (a bucket may have several index files), `counts` (the rule of bucket
counts).
"""

from __future__ import annotations

from pathlib import Path

from tablestore.format.binary_row import comparable_keys
from tablestore.format.manifests.index_manifest import (
    DELETION_VECTORS,
    IndexEntry,
    IndexFileMeta,
    VectorRange,
)
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.write.commit import conflict_rules
from tests import text_cases
from tests.lsm.trees import KEY, data_file

CASES = Path(__file__).parent / "cases" / "conflicts.txt"
KINDS = {"+": ADD, "-": DELETE, "live": ADD, "live-index": ADD, "+index": ADD, "-index": DELETE}


def data_entry(verb: str, name: str, level: str, keys: str, *words: str) -> ManifestEntry:
    low, high = map(int, keys.strip("[]").split(","))
    bucket, total = map(int, text_cases.settings(list(words)).get("bucket", "0/1").split("/"))
    return ManifestEntry(KINDS[verb], b"", bucket, total, data_file(name, low, high, level=int(level[1:])))


def index_entry(verb: str, name: str, *words: str) -> IndexEntry:
    marks = text_cases.settings(list(words)).get("marks", "").split(",")
    ranges = tuple(VectorRange(data_file, 1, 22, 3) for data_file in marks if data_file)
    return IndexEntry(KINDS[verb], b"", 0, IndexFileMeta(DELETION_VECTORS, name, 9, len(ranges), ranges))


def outcome(lines: list[str]) -> str:
    live, delta, index, index_delta, switches = [], [], [], [], set[str]()
    for verb, *words in map(str.split, lines):
        if verb in ("append", "counts"):
            switches.add(verb)
        elif verb.endswith("index"):
            (index if verb.startswith("live") else index_delta).append(index_entry(verb, *words))
        else:
            (live if verb == "live" else delta).append(data_entry(verb, *words))
    actual = conflict_rules.bucket_counts(live, delta, str) if "counts" in switches else None
    actual = actual or conflict_rules.files(live, delta, comparable_keys(KEY))
    if actual is None:
        added = {e.file.file_name for e in delta if e.kind == ADD}
        gone = {e.file.file_name for e in delta if e.kind == DELETE} - added
        names = {e.file.file_name for e in live} - gone | added
        bucketed = "append" not in switches
        actual = conflict_rules.index_files(index, index_delta, names, gone=gone, bucketed=bucketed)
    return "no conflict" if actual is None else f"{actual.rule}: {actual.text}"


def test_every_conflict_rule(rewrite: bool) -> None:
    assert POSTPONE_BUCKET == -2, "as the cases have it"
    text_cases.check(CASES, outcome, rewrite=rewrite)
