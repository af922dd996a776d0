"""Queries: who reads what of which table, and who computes."""
