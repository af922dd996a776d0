"""The coordinator of tiering for tables with a log: which table is due, who has it, and until when."""
