"""The dialect: sqlglot's Spark with the words of Flink SQL and ours."""
