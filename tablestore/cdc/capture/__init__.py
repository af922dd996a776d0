"""Change capture of a whole database: tables that come, change and go, in one job, into tables of a lake."""

from __future__ import annotations
