"""WebShop: find, configure and buy what an instruction asks for."""

from abreast.rollouts.envs.webshop.config import WebShopConfig
from abreast.rollouts.envs.webshop.env import WebShopEnv
from abreast.rollouts.envs.webshop.solver import solve
from abreast.rollouts.registry import EnvKind, Tool

_PAGES = {
    "text": "The state is the text of a page; [SEP] stands between its parts.",
    "text_rich": (
        "The state is the text of a page, one part a line. What can be clicked is marked [button] ... [button_]; "
        "what has been clicked, [clicked button] ... [clicked button_]."
    ),
    "html": "The state is the HTML of a page.",
    "url": "The state is the address of a page; it names the search, the product and the options chosen.",
}


def _legend(config: WebShopConfig) -> str:
    """How pages are shown, and what actions look like."""
    return (
        f"{_PAGES[config.observation_mode]} On a page with a search bar, search[words] looks for products. "
        "click[thing] clicks anything else: a product's number, a button, or the value of an option. click[next >] "
        "and click[< prev] turn pages, click[back to search] starts over, click[buy now] buys and ends the game. An "
        "action looks like search[red running shoes] or click[buy now]."
    )


def _tools(config: WebShopConfig) -> list[Tool]:
    words = {"words": {"type": "string", "description": "What to look for."}}
    thing = {"thing": {"type": "string", "description": "What to click, as the page names it."}}
    return [
        Tool("search", "Look for products, on a page with a search bar.", words, "search[{words}]"),
        Tool("click", "Click a product's number, a button, or the value of an option.", thing, "click[{thing}]"),
    ]


KIND = EnvKind(
    name="webshop",
    summary="Search a shop with thousands of products, choose options, and buy what an instruction asks for.",
    env=WebShopEnv,
    config=WebShopConfig,
    instruction=(
        "You are shopping online. Find the product the instruction asks for, choose the options it names, keep within "
        "the price it names, and buy it."
    ),
    legend=_legend,
    solver=solve,
    tools=_tools,
    turn_metrics=frozenset({"action_is_valid", "action_is_effective", "end_of_page"}),
    by_mode={"train": {"split": "train"}, "val": {"split": "val"}},
    presets={"ragen": {"human_goals": False, "max_steps": None, "binary_reward": True}},
)
