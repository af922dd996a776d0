"""Parquet: data files, their encodings, single pages, and the Thrift of footers."""
