"""Rows of given keys in the files of a bucket."""
