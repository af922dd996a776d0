"""Findings: what the doctor says of a table."""
