"""`python -m tablestore.lsm.compaction --check-picks FILE`."""

from __future__ import annotations

import argparse
import gzip
import sys
import zlib
from collections.abc import Sequence

from tablestore.io.fileio import LocalFileIO
from tablestore.lsm.compaction.recorded import check_picks

_GZIP = b"\x1f\x8b"
_SHOWN = 5  # lines that are not cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay a file of recorded picks or partitions. The exit code: 0 all agree; 1 some differ, the first are
    shown; 2 none differs, but a line is not a case or there are no cases."""
    parser = argparse.ArgumentParser(
        prog="python -m tablestore.lsm.compaction",
        description="Replay recorded picks, and partitions of files into sections; all must agree.",
    )
    parser.add_argument(
        "--check-picks", metavar="FILE", required=True, help="JSON lines, plain or gzip; - for standard input"
    )
    path = parser.parse_args(arguments).check_picks
    try:
        text = _unpacked(sys.stdin.buffer.read() if path == "-" else LocalFileIO().read(path)).decode(
            "utf-8-sig"
        )
    except (OSError, EOFError, ValueError, zlib.error) as e:
        return _refused(path, e.strerror if isinstance(e, OSError) and e.strerror else str(e))
    checked = check_picks(text.split("\n"))
    for difference in checked.shown:
        print(difference)
    for line in checked.damaged[:_SHOWN]:
        print(f"{path}: {line}", file=sys.stderr)
    if not checked.cases:
        return _refused(path, "the file has no cases")
    print(f"{checked.cases - checked.wrong} of {checked.cases} picks agree")
    if checked.damaged:
        many = (
            "1 line is not a case"
            if len(checked.damaged) == 1
            else f"{len(checked.damaged)} lines are not cases"
        )
        print(f"{path}: {many}", file=sys.stderr)
    return 1 if checked.wrong else 2 if checked.damaged else 0


def _unpacked(data: bytes) -> bytes:
    return gzip.decompress(data) if data.startswith(_GZIP) else data


def _refused(path: str, why: str) -> int:
    print(f"{path}: not a file of recorded picks: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
