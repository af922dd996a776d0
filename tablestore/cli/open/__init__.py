"""The command `open`: a table in JupyterLab, as a page or as text."""
