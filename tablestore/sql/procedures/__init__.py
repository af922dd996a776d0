"""Procedures: what CALL sys.name(…) does, a family a module; `all.py` has them by name."""
