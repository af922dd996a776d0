"""Maintenance: a service that compacts, expires and cleans tables by policy and budget (`lake.maintain`)."""
