"""The files of a bucket: sorted runs, levels, sections."""
