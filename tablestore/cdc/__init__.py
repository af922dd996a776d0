"""Change data capture without an engine: the source of changes, their decoding, and the task that writes them
into a table.
"""
