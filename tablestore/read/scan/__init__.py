"""Batch reads: which snapshot, which files, their rows."""
