"""Topics of Kafka: what a cluster says of them, reading a range of offsets, writing in transactions."""
