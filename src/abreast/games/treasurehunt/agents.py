"""Who hunts."""

from abreast.games.walkers import Walker


class TreasurehuntAgent(Walker):
    """Walks up, down, left and right, and takes what it walks onto."""
