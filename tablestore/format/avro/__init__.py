"""Avro: object containers, and data files of rows in columns."""
