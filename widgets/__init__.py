"""Interactive pictures of lake tables for notebooks; every view also has a static picture and a text form."""

import importlib.util

if importlib.util.find_spec("anywidget") is None:
    raise ModuleNotFoundError(
        "anywidget is missing: pip install 'tablestore-workbench[lab]'", name="anywidget"
    )

from widgets.alarms.widget import LakeAlarms
from widgets.amplification.widget import AmplificationChart
from widgets.bars.widget import BarChart
from widgets.buckets.widget import BucketAdvisor
from widgets.capture.widget import CaptureProgress
from widgets.changelog.widget import ChangelogView
from widgets.chart.plot import plot
from widgets.controls.widget import CompactionControls
from widgets.explorer.widget import FileExplorer
from widgets.findings.widget import Findings
from widgets.game.widget import ShopGame
from widgets.health.widget import TableHealth
from widgets.ingest.widget import IngestProgress
from widgets.kit.beside import Beside
from widgets.kit.page import page
from widgets.lake_health.widget import LakeHealth
from widgets.levels.widget import LsmLevels
from widgets.log.widget import LogAndLake
from widgets.maintenance.widget import MaintenanceView
from widgets.merge.widget import MergeView
from widgets.play.widget import CompactionPlay
from widgets.pruning.widget import PruningExplainer
from widgets.steps.widget import StepLanes
from widgets.stream.widget import StreamTable
from widgets.task.widget import Task, TaskList, Veil
from widgets.tiering.widget import TieringView
from widgets.timeline.widget import SnapshotTimeline
from widgets.trade_off.widget import TradeOff
from widgets.what_if.widget import WhatIf
from widgets.workbench.widget import Workbench

__all__ = [
    "AmplificationChart",
    "BarChart",
    "Beside",
    "BucketAdvisor",
    "CaptureProgress",
    "ChangelogView",
    "CompactionControls",
    "CompactionPlay",
    "FileExplorer",
    "Findings",
    "IngestProgress",
    "LakeAlarms",
    "LakeHealth",
    "LogAndLake",
    "LsmLevels",
    "MaintenanceView",
    "MergeView",
    "PruningExplainer",
    "ShopGame",
    "SnapshotTimeline",
    "StepLanes",
    "StreamTable",
    "TableHealth",
    "Task",
    "TaskList",
    "TieringView",
    "TradeOff",
    "Veil",
    "WhatIf",
    "Workbench",
    "page",
    "plot",
]
