"""Verbs of tables that stand on `insight`: mend, repair, replay, preview and advise; the system tables.

`tablestore.doors` imports each when it is first used.
"""
