"""From bytes to rows: every row knows its file and line, for error messages."""
