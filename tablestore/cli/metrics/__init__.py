"""`--metrics` of commands that run for long: what they report, as Prometheus reads it."""
