"""Table options: names, values, groups by what they concern, and the rules for which are accepted."""
