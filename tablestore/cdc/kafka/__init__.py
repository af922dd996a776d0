"""Topics of Kafka as stream sources, by confluent-kafka (extra `kafka`). `topic_stream.py` is the source,
`scan_point.py` where it begins and ends, `partition_range.py` what a task reads, `cluster.py` what the driver
asks; `topic_writer.py` sends messages in one transaction."""
