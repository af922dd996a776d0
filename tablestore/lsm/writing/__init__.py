"""Writers of buckets: write buffers, flushes, rolling, memory."""
