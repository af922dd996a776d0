"""Pages that play without a kernel: Python in the browser drives the same views by the same rules."""
