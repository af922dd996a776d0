"""`python -m datasets.tpch base|refresh …`: files of base tables and of refresh sets."""

import argparse
import sys
from pathlib import Path

from datasets.errors import DatasetError
from datasets.tpch.base_tables import base
from datasets.tpch.refresh_sets import refresh, write_files


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m datasets.tpch", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    sets = verbs.add_parser("refresh", help="write orders.tbl.uN, lineitem.tbl.uN and delete.N")
    sets.add_argument("--scale-factor", required=True)
    sets.add_argument("--set", type=int, required=True, help="1 to 999")
    sets.add_argument("--sizes", choices=("dbgen", "spec"), default="dbgen", help="how many orders a set has")
    sets.add_argument("--out", type=Path, required=True, help="directory to write into")
    tables = verbs.add_parser(
        "base", help="make the Parquet files of base tables in the cache, print their paths"
    )
    tables.add_argument("--scale-factor", required=True)
    tables.add_argument("--tables", nargs="+", default=["lineitem"])
    tables.add_argument("--parts", type=int, default=1)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; 2 after an error that a user can mend, printed as one line."""
    options = _parser().parse_args(arguments)
    try:
        if options.verb == "refresh":
            chosen = refresh(options.scale_factor, options.set, sizes=options.sizes)
            if not chosen.count:
                print("dbgen's sets are empty at this scale factor; --sizes spec gives some", file=sys.stderr)
            paths = write_files(chosen, options.out)
        else:
            tables = base(options.scale_factor, options.tables, parts=options.parts)
            paths = [path for files in tables.values() for path in files]
    except (DatasetError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(map(str, paths)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
