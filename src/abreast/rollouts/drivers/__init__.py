"""Playing whole episodes: policies, the loop that asks them, what is shown and what is kept."""
