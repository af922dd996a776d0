"""The life of a table as edits: the state of any moment, in Python and in the browser."""
