"""Adapters: environments of other forms, made playable by the texts that the manager sends.

kind.env(config) ──▶ adapt ──┬── takes texts, or has an action_lookup, and Gymnasium's reset: left as it is
                             ├── FourTuple: reset without `options`, such as reset(seed, mode) and step of four values
                             └── TextAdapter: Discrete and MultiDiscrete actions, by number or by name
"""

from abreast.rollouts.adapters.adapt import Adapted, adapt
from abreast.rollouts.adapters.base import Adapter
from abreast.rollouts.adapters.old import FourTuple
from abreast.rollouts.adapters.text import TextAdapter

__all__ = ["Adapted", "Adapter", "FourTuple", "TextAdapter", "adapt"]
