"""Writers of buckets: write buffers, flushes, memory."""
