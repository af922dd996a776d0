"""What the notebooks of the course share: the environment check, tasks, small data, places
for tables, a race of two writers and a crash lab, both on the real engine.

    from notebooks import course
    course.begin("02 Rows, files, runs", solve=solve)
    course.check()

A cell that poses a task holds its answer too, so it is folded: `# %% jupyter={"source_hidden": true}`.

Imports the public API of tablestore and the tokens of the widgets; nothing imports this but notebooks and
their tests.
"""

from notebooks.course.cards import Card
from notebooks.course.crash import CrashLab
from notebooks.course.data import ORDERS, deletes, orders, updates
from notebooks.course.health import check
from notebooks.course.needs import NotHere, need
from notebooks.course.places import LaterEnv, lake, orders_table, warehouse
from notebooks.course.tasks import Task, begin, progress, task
from notebooks.course.trees import tree
from notebooks.course.two_writers import Race
from notebooks.demo import sql_connectors
from widgets.task.answers import Choice, Each, Holds, Members, Number, Order, Rows, files, runs
from widgets.task.model import Cell, Grid, RunPicture, run_names

sql_connectors.provide()

__all__ = [
    "ORDERS",
    "Card",
    "Cell",
    "Choice",
    "CrashLab",
    "Each",
    "Grid",
    "Holds",
    "LaterEnv",
    "Members",
    "NotHere",
    "Number",
    "Order",
    "Race",
    "Rows",
    "RunPicture",
    "Task",
    "begin",
    "check",
    "deletes",
    "files",
    "lake",
    "need",
    "orders",
    "orders_table",
    "progress",
    "run_names",
    "runs",
    "task",
    "tree",
    "updates",
    "warehouse",
]
