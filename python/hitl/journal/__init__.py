"""What is stored of a turn, and how values are written and read back."""
