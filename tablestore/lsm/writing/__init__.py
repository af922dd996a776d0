"""Rows into the files of a bucket: write buffers, flushes, writers."""
