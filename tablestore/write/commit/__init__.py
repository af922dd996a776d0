"""Commit messages become a snapshot, all or nothing."""
