"""Messages of topics: bytes → Arrow batches with row kinds, whole columns at a time. `messages.py` is what
the formats are given and says which message is bad, `encodings.py` types the values."""
