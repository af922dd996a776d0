"""`maintain`: compact, expire and clean the tables of a lake, by policy and budget.

    PROGRAM maintain --warehouse lake --tables 'shop.*' --runs 3 --freshness '10 min'
    PROGRAM maintain --warehouse lake --policy policies.toml --bytes-per-hour '10 gb' --window 22:00-06:00
    PROGRAM maintain --warehouse lake --plan
    PROGRAM maintain --warehouse lake --advise shop.orders --runs 3

The worst bucket comes first. Each piece of work is one commit; services in other processes or on other
machines share the tables by leases in the warehouse. --policy is a file of TOML: a table for each pattern, of
which the first that fits decides:

    ["shop.orders"]
    runs = 2
    freshness = "5 min"
    ["*"]
    orphans_every = "7 d"

Ctrl-C ends it after the piece of work under way. Exit codes: 0 done, 2 refused, 3 some work failed, 130
stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tablestore.cli.door import (
    Door,
    add_log,
    add_many,
    add_master,
    add_metrics,
    add_warehouse,
    command_parser,
)


def parsed(arguments: Sequence[str], door: Door) -> argparse.Namespace:
    """The options; ends the process where they do not go together."""
    p = _parser(door)
    options = p.parse_args(arguments)
    if options.policy is not None:
        given = {
            "--runs": options.runs,
            "--freshness": options.freshness,
            "--analyze-every": options.analyze_every,
        }
        given["--tables"] = options.tables or None
        for name in (name for name, value in given.items() if value is not None):
            p.error(f"--policy says it for each table: leave {name} out")
    if options.plan and options.advise:
        p.error("--plan and --advise are two questions: ask one")
    if options.engine == "local" and options.master is not None:
        p.error("--master is of --engine spark")
    for name in (name for name in ("plan", "advise") if getattr(options, name) and options.once):
        p.error(f"--{name} does nothing: leave --once out")
    for name in (name for name in ("plan", "advise") if getattr(options, name) and options.log):
        p.error(f"--{name} answers a question and logs nothing: leave --log out")
    return options


def _parser(door: Door) -> argparse.ArgumentParser:
    p = command_parser("maintain", __doc__ or "", door)
    add_warehouse(p, door)
    add_many(p, "--tables", "PATTERNS", "database.table with * and ?, several with commas; default: all")
    p.add_argument(
        "--runs", type=int, metavar="N", help="sorted runs of a bucket at most (default: by its rules)"
    )
    p.add_argument(
        "--freshness", metavar="TIME", help="how long files of level 0 wait for a compaction at most"
    )
    p.add_argument("--analyze-every", metavar="TIME", help="how often statistics are made (default: never)")
    p.add_argument("--policy", metavar="FILE", help="TOML: policies by pattern")
    p.add_argument(
        "--bytes-per-hour", metavar="SIZE", help="that compactions read at most (default: no limit)"
    )
    add_many(p, "--window", "HH:MM-HH:MM", "hours of the day for work that nobody waits for")
    p.add_argument("--once", action="store_true", help="end when nothing is left that may be done")
    p.add_argument("--plan", action="store_true", help="say what would be done and why, and do nothing")
    p.add_argument(
        "--advise",
        metavar="TABLE",
        help="replay the history of a table under other options: which are cheapest under its policy",
    )
    p.add_argument("--name", metavar="NAME", help="of the service, under which it writes down what it does")
    p.add_argument(
        "--engine",
        choices=("local", "spark"),
        default="local",
        help="what compacts: processes of this machine, or Spark's tasks (default %(default)s)",
    )
    p.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="buckets compacted at a time (default: one; with Spark all cores)",
    )
    add_master(p)
    add_metrics(p)
    add_log(p)
    p.add_argument("--poll", default="5 s", metavar="TIME", help="between two looks (default %(default)s)")
    return p
