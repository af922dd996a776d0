"""Explanations: plans of scans, decisions and forecasts of compactions, merges step by step."""
