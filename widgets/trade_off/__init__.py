"""The trade-off map: write, read and space amplification of many settings, on one workload."""
