"""What is kept and what goes: expiry, tags, branches, rollback, orphan files."""
