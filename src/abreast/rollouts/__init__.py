"""Rollouts: hundreds of text environments, stepped side by side."""
