"""What a model is told about the states of the web shop."""

from abreast.rollouts.envs.webshop.config import WebShopConfig

_PAGES = {
    "text": "The state is the text of a page; [SEP] stands between its parts.",
    "text_rich": (
        "The state is the text of a page, one part a line. What can be clicked is marked [button] ... [button_]; "
        "what has been clicked, [clicked button] ... [clicked button_]."
    ),
    "html": "The state is the HTML of a page.",
    "url": "The state is the address of a page; it names the search, the product and the options chosen.",
}


def legend(config: WebShopConfig) -> str:
    """How pages are shown, and what actions look like."""
    return (
        f"{_PAGES[config.observation_mode]} On a page with a search bar, search[words] looks for products. "
        "click[thing] clicks anything else: a product's number, a button, or the value of an option. click[next >] "
        "and click[< prev] turn pages, click[back to search] starts over, click[buy now] buys and ends the game. An "
        "action looks like search[red running shoes] or click[buy now]."
    )
