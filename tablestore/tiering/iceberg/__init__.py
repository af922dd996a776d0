"""Tables of Apache Iceberg as the lake: log tables, a snapshot a round, whose summary holds the offsets."""
