"""Interactive pictures of lake tables for notebooks; every view also has a static picture and a text form."""

from widgets._cockpit import Cockpit, cockpit, page
from widgets.controls.model import Triggers
from widgets.controls.widget import CompactionControls
from widgets.ingest.widget import IngestProgress
from widgets.levels.widget import LsmLevels
from widgets.steps.widget import StepLanes
from widgets.timeline.widget import SnapshotTimeline

__all__ = [
    "Cockpit",
    "CompactionControls",
    "IngestProgress",
    "LsmLevels",
    "SnapshotTimeline",
    "StepLanes",
    "Triggers",
    "cockpit",
    "page",
]
