"""Flight SQL: the statements of this package for clients of Arrow, ADBC and JDBC."""
