"""Spark over tables: sessions, sources and sinks, the ingest pipeline, compaction jobs. Spark plans,
schedules and retries; the rows stay in Python.
"""
