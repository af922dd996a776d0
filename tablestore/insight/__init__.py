"""What looks at a table and never writes to it: what is, is it sound, why, what to do, what if."""
