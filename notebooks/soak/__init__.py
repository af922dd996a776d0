"""`./workbench soak`: everything that flows, at work for hours, with kills, and compared at the end."""
