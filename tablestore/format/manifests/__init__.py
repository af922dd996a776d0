"""Manifests: which files a snapshot is made of, as values and as columns."""
