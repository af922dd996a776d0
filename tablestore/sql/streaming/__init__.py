"""Statements in streaming mode: queries that follow their tables, and jobs that keep tables in step."""
