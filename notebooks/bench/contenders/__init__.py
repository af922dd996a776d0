"""What is measured: engines in processes of their own, each a program that answers lines."""
