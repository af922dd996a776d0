"""Lookup join: facts joined with a table as it is known when they come, and the caches that make it quick."""
