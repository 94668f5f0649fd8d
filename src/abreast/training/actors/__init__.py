"""Actors: the protocol (base), all in this thread (inline), in processes or threads of their own (process)."""
