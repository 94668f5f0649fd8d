"""What a run shows and leaves behind: record, live display, films, health."""
