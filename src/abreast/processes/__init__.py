"""Processes: shared memory, one-writer rings, newest-value slots, children and teams of them. No torch, no learning."""
