"""Maintenance of a lake: what a service did, why, what it cost and bought, and what waits."""
