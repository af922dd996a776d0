"""`python -m tablestore.lsm.compaction --check-picks FILE`."""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Sequence

from tablestore.io.fileio import LocalFileIO
from tablestore.lsm.compaction.recorded import check_picks


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay a file of recorded picks; 0: all agree, 1: differences are shown, 2: unreadable."""
    parser = argparse.ArgumentParser(
        prog="python -m tablestore.lsm.compaction", description="Replay recorded picks."
    )
    parser.add_argument("--check-picks", metavar="FILE", required=True, help="JSON lines, plain or .gz")
    path = parser.parse_args(arguments).check_picks
    try:
        data = LocalFileIO().read(path)
        text = (gzip.decompress(data) if path.endswith(".gz") else data).decode()
        cases, wrong, shown = check_picks(text.splitlines())
    except (OSError, EOFError, ValueError, KeyError, TypeError) as e:
        why = e.strerror if isinstance(e, OSError) and e.strerror else _words(e)
        print(f"{path}: no file of recorded picks: {why}", file=sys.stderr)
        return 2
    for found in shown:
        print(found)
    print(f"{cases - wrong} of {cases} picks agree")
    return 1 if wrong or not cases else 0


def _words(error: Exception) -> str:
    return f"a case without {error}" if isinstance(error, KeyError) else str(error)


if __name__ == "__main__":
    sys.exit(main())
