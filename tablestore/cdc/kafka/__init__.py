"""Topics of Kafka as stream sources, by confluent-kafka (extra `kafka`). `topic_stream.py` is the source,
`topic_ranges.py` says where it begins and ends. In `log/kafka/` are `partition_range.py`, what a task reads,
`cluster.py`, what the driver asks, and `sender.py`, which sends messages in one transaction."""
