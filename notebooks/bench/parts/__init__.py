"""What benchmarks share, and what would make one of them long."""
