"""Learners: the protocol (base), in this thread (inline), in workers by rounds (rounds) or without waiting (free)."""
