"""What a run shows and leaves behind: record, live display, camera, health."""
