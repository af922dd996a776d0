"""Reading: clients of `meta` that never write to a table, but for consumer files.

`scan/`: which snapshot, which files, their rows; `changes/`: what changed between snapshots, and streams;
`points/`: rows of given keys.
"""
