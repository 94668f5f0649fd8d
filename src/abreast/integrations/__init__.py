"""Environments of other libraries as games of ours, and our games as theirs; each imports its library when it is used."""
