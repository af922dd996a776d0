"""PostgreSQL as a source: rows in chunks, then its log by the plugin pgoutput."""
