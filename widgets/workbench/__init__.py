"""Workbench: the cockpit of a table."""
