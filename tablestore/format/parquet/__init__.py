"""Parquet: data files, their encodings and checksums, single pages, and the Thrift of footers."""
