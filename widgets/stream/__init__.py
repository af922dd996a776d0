"""The changes of a query as they come."""
