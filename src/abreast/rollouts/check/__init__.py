"""`abreast check`: does an environment keep the contract of rollouts?"""

from abreast.checking import Verdict
from abreast.rollouts.check.checks import check_environment

__all__ = ["Verdict", "check_environment"]
