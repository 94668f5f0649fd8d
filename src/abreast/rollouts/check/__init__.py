"""`abreast check`: does an environment keep the contract of rollouts?"""

from abreast.rollouts.check.checks import Verdict, check_environment

__all__ = ["Verdict", "check_environment"]
