"""The log store: per bucket an ordered run of changes with offsets, embedded in the table or in Kafka."""
