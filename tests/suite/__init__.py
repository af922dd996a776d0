"""The suite's own machinery: which tests a run takes, in what order, on which processes, and how it ends.

`tests/conftest.py` loads the plugins. Only `seeds` holds chance, only `parts` leaves tests out, only
`schedule` orders them.
"""
