"""File readers. Every row comes with its file and line, for error messages."""
