"""Aggregators: functions that make one value of the values of a column."""
