"""Environments of other libraries as games.

    PettingZoo ParallelEnv, AECEnv ─┐                                      ┌─ AdaptedLanes, a Playable
    Gymnasium Env                  ─┴─▶ Adapted: one copy, by numbers ────▶┴─ AdaptedExperiment, AdaptedGame

An `Adapted` (`base.py`) is one environment whose agents, observations and actions are numbers and arrays; `parallel.py`,
`turns.py` and `single.py` implement it, `spaces.py` says how spaces become arrays. Above it nothing knows which library
an environment comes from.
"""
