"""The JupyterLab extension: pictures in saved notebooks, lakes in the sidebar."""
