"""Why: decisions, forecasts, merges step by step, amplification."""
