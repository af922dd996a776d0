"""A reproducible change stream over TPC-H: snapshot chunks and a log of Debezium events. See README.md."""

from datasets.cdc.generate import advance, generate, pump
from datasets.cdc.reader import decode, read_log
from datasets.cdc.source import LOG_START, Chunk, Position, Source, open_source, splits

__all__ = [
    "LOG_START",
    "Chunk",
    "Position",
    "Source",
    "advance",
    "decode",
    "generate",
    "open_source",
    "pump",
    "read_log",
    "splits",
]
