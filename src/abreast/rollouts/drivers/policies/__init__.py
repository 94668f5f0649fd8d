"""Policies: who plays. `make_policy` makes the one that the command line names."""
