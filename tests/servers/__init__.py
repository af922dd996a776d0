"""Real servers for tests: each starts on a free port in a directory of its own and ends with the run.

All listen on 127.0.0.1 only, but for the Hive metastore, which offers no choice (see `hive`).
"""
