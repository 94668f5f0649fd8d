"""Worker processes: what runs in one, what is said to it, and which environments live there."""
