"""`python -m datasets.cdc generate|pump …`: make a change stream's directory, append to a paced one."""

import argparse
import sys
from pathlib import Path

from datasets.cdc.generate import generate, pump
from datasets.errors import DatasetError


def _pace(text: str) -> str | float:
    return text if text == "article" else float(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m datasets.cdc", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("generate", help="make the chunks and, unless paced, the log")
    make.add_argument("directory", type=Path)
    make.add_argument("--scale-factor", required=True)
    make.add_argument("--pairs", type=int, default=10)
    make.add_argument("--seed", type=int, default=0)
    make.add_argument("--pace", type=_pace, help='"article", or seconds for each pair')
    make.add_argument("--tables", nargs="+", default=["lineitem"])
    make.add_argument("--sizes", choices=("auto", "dbgen", "spec"), default="auto")
    grow = verbs.add_parser("pump", help="append to the log at the source's pace until it is complete")
    grow.add_argument("directory", type=Path)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; 2 after an error that a user can mend, printed as one line."""
    options = vars(_parser().parse_args(arguments))
    try:
        if options.pop("verb") == "pump":
            pump(**options)
        else:
            note = generate(options.pop("directory"), options.pop("scale_factor"), **options).note
            print(note, end="\n" if note else "")
    except (DatasetError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
