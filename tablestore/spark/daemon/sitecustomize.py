"""Lets the daemons that fork Spark's Python processes import the engine once, before they fork.

PySpark's daemon imports nothing, so each process that it forks imports everything anew: a second of processor
time for each answer of a planner, which is a process of its own. Python imports a module of this name when it
starts; in any process that is no daemon nothing happens here. Another `sitecustomize` of the path runs as
without this one. A daemon may have no threads of its own when it forks: those that libraries start on import
are switched off by their variables.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import os
import sys

DAEMON = "pyspark.daemon"
SOURCES = ("tablestore.spark.datasource", "tablestore.spark.work_source")
WITHOUT_THREADS = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def run_the_next() -> None:
    """What Python would have imported under this name, were this folder not in its path."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def import_once(arguments: list[str]) -> None:
    """Import what the processes need that a daemon with these arguments forks. What cannot be imported here
    is named by the process that needs it."""
    if DAEMON not in arguments:
        return
    for name, value in WITHOUT_THREADS.items():
        os.environ.setdefault(name, value)
    runs = [argument for argument in arguments if argument.startswith("pyspark.") and argument != DAEMON]
    for module in (*SOURCES, *(runs or ["pyspark.worker"])):
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # or the first collection of each process copies all pages


if __name__ == "sitecustomize":
    run_the_next()
    import_once(sys.orig_argv)
