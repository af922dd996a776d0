"""Procedures: what CALL sys.name(…) does, a family a module; `statements/call.py` has them by name."""
