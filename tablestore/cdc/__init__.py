"""Change data capture without an engine: where changes are, how they read, how a task writes them into a
table.
"""
