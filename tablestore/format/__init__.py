"""Bytes ⇄ values of the Paimon table format; testable against golden files with no table."""
