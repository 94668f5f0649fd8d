"""Policies: who plays. One file each, and the protocol in `base`."""
