"""What reads a table and never writes to it: inspect (what is), check (is it sound), explain (why), doctor
(what to do) and simulator (what if)."""
