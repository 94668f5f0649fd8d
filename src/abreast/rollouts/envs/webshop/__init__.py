"""WebShop: find, configure and buy what an instruction asks for."""

from abreast.rollouts.envs.webshop.config import WebShopConfig
from abreast.rollouts.envs.webshop.env import WebShopEnv
from abreast.rollouts.envs.webshop.legend import legend
from abreast.rollouts.envs.webshop.solver import solve
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="webshop",
    summary="Search a shop with thousands of products, choose options, and buy what an instruction asks for.",
    env=WebShopEnv,
    config=WebShopConfig,
    instruction=(
        "You are shopping online. Find the product the instruction asks for, choose the options it names, keep within "
        "the price it names, and buy it."
    ),
    legend=legend,
    solver=solve,
    turn_metrics=frozenset({"action_is_valid", "action_is_effective", "end_of_page"}),
    by_mode={"train": {"split": "train"}, "val": {"split": "val"}},
    presets={"ragen": {"human_goals": False, "max_steps": None, "binary_reward": True}},
)

__all__ = ["KIND", "WebShopConfig", "WebShopEnv"]
