"""Formats of change messages: bytes → Arrow batches with row kinds, whole columns at a time. `registry.py`
names them, `messages.py` is what they are given and says which message is bad, `encodings.py` types the
values."""
