"""Checkpoints of a run: folders of states with a manifest, written whole, read with suspicion."""
