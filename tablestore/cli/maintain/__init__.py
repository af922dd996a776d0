"""The command `maintain`: a maintenance service, and its picture on a terminal."""
