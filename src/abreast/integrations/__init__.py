"""Environments of other libraries as games of ours, loggers, and trainers; each imports its library when it is used."""

SOURCES = {
    "pettingzoo": "abreast.integrations.pettingzoo:find",
    "gymnasium": "abreast.integrations.gymnasium:find",
    "sorrel": "abreast.integrations.sorrel:find",
}
"""Libraries, by the word before the first colon of a target: the function that makes a game of what comes after it."""
