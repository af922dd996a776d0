"""Lookups: the rows of keys in the files of a bucket."""
