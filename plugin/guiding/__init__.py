"""What attention guiding needs beside its losses: arguments, and what heads are guided to."""
