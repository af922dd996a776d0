"""BucketAdvisor: numbers of buckets tried over real keys, and how evenly each spreads the rows."""
