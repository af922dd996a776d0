"""Compaction strategies: which sorted runs of a bucket to merge next; and the compactions themselves.

A strategy is pure: levels, options and a context in; a `Decision` with its reason out, the "no" included.
`loop.pick` uses the table's strategy; `universal.full` brings all of a bucket to the oldest level whatever
the strategy. Called by writers, compaction jobs, dry runs and the simulator. `python -m
tablestore.lsm.compaction --check-picks FILE` replays recorded picks.
"""
