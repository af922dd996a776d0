"""Avro: object containers, and data files written and read by whole columns."""
