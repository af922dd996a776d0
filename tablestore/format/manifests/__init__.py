"""Manifests: the files of a snapshot, as values and as columns."""
