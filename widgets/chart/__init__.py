"""Rows as ordinary charts: bars, lines, histograms, points; by Plotly or another backend of pandas."""
