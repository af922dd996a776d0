"""Table options: names, values, groups by what they concern, and the rules of which are there."""
