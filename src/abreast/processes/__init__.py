"""Processes: shared memory, one-writer rings, newest-value slots, workers and their supervisor. No torch, no learning."""
