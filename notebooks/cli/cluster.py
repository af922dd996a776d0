"""`cluster`: a Spark standalone cluster on this machine, a master and workers, until Ctrl-C.

Its processes are apart from this checkout: what runs there is shipped. To run the demo on it:

  ./workbench demo --master spark://127.0.0.1:PORT
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time

from rich.console import Console
from rich.text import Text

import tablestore as ts
from notebooks.cli.places import CHECKOUT, ROOT
from notebooks.demo.spark_cluster import SparkCluster
from tablestore.cli.door import command_parser

REFUSED = 2
_LOOK_SECONDS = 1.0


def main(arguments: list[str]) -> int:
    """Run a cluster and say what happens on it; 0 once it was stopped, 2 where it cannot be."""
    options = parser().parse_args(arguments)
    screen = Console(highlight=False)
    try:
        with SparkCluster(workers=options.workers, cores=options.cores, memory_mb=options.memory) as cluster:
            workbench = shlex.quote(str(ROOT / "workbench"))
            screen.print(
                f"{cluster.url}, page {cluster.page}, directories in {cluster.folder}", soft_wrap=True
            )
            screen.print(f"  {workbench} demo --master {cluster.url}", soft_wrap=True)
            screen.print("Ctrl-C ends it.")
            _tell(cluster, screen)
    except ts.TablestoreError as e:
        screen.print("[bold red]cluster:[/]", Text(str(e)))
        return REFUSED
    except KeyboardInterrupt:
        screen.print("stopped")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options of the verb."""
    p = command_parser("cluster", __doc__ or "", CHECKOUT)
    p.add_argument("--workers", type=int, default=2, metavar="N", help="worker processes (default 2)")
    p.add_argument("--cores", type=int, default=1, metavar="N", help="tasks at once in each (default 1)")
    p.add_argument(
        "--memory", type=int, default=1024, metavar="MB", help="for executors of each worker (default 1024)"
    )
    return p


def _tell(cluster: SparkCluster, screen: Console) -> None:
    """Print what begins and ends on the cluster, until interrupted."""
    before: dict[str, str] = {}
    while True:
        now = cluster.states()
        for name in [*now, *(before.keys() - now.keys())]:
            state = now.get(name, "gone")
            if before.get(name) != state:
                screen.print(f"{time.strftime('%H:%M:%S')} {name}: {state}", soft_wrap=True)
        before = now
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
