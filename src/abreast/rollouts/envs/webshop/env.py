"""The web shop as an environment."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from abreast.errors import ConfigError
from abreast.rollouts.envs.base import Taken, TextEnv, info_of
from abreast.rollouts.envs.webshop.build import catalogue_from, user_folders
from abreast.rollouts.envs.webshop.catalogue import Catalogue
from abreast.rollouts.envs.webshop.config import WebShopConfig
from abreast.rollouts.envs.webshop.generate import generated_source
from abreast.rollouts.envs.webshop.goals import goal_for_seed
from abreast.rollouts.envs.webshop.loader import files_source
from abreast.rollouts.envs.webshop.pages import Page, Session, show
from abreast.rollouts.envs.webshop.reward import score
from abreast.rollouts.envs.webshop.words import clean, search_words

MAX_ACTION = 2_000
"""Characters of an action; a longer one is not looked at."""
MAX_OBSERVATION = 200_000
"""Characters of an observation; what is beyond is cut off."""
_MAX_QUERY = 200
_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)


class WebShopEnv(TextEnv[str]):
    """Find in a shop what an instruction asks for, choose its options and buy it.

    env = WebShopEnv({"observation_mode": "text"})
    text, info = env.reset(seed=1)
    text, reward, terminated, truncated, info = env.step("search[red running shoes]")
    text, reward, terminated, truncated, info = env.step(info["available_actions"][-1])
    """

    def __init__(self, config: WebShopConfig | Mapping[str, Any] | None = None) -> None:
        self.config = WebShopConfig.parse({} if config is None else config)
        self._catalogue = open_shop(self.config)
        counts = self._catalogue.goal_counts
        self._goals = "human" if self.config.human_goals and counts["human"] else "synthetic"
        if not counts[self._goals]:
            raise ConfigError(
                f"the product files of {self.config.data} hold no goal: no product has instruction_attributes."
            )
        limit = self.config.limit_goals
        self._goal_count = min(counts[self._goals], limit) if limit > 0 else counts[self._goals]
        self.observation_space = self._catalogue.text_space(MAX_OBSERVATION)
        self.action_space = self._catalogue.text_space(MAX_ACTION)

    def _begin(self, seed: int | None) -> dict[str, Any]:
        number = int(self.np_random.integers(2**31)) if seed is None else seed
        place = goal_for_seed(self.config.split, number, self._goal_count)
        self._goal = self._catalogue.goal(self._goals, place)
        self._steps = 0
        self._go_to(Session(f"{self._goals}-{place}", self._goal.instruction))
        return self._info()

    def _take(self, action: str) -> Taken:
        session = self._session_after(action)
        if session is None:
            return 0.0, False, False, self._info(valid=False)

        before = self._page.url
        self._steps += 1
        terminated, result = session.page == "end", dict[str, Any]()
        if terminated:
            bought, wanted = self._catalogue.product(session.asin), self._catalogue.product(self._goal.asin)
            result = score(bought, session.options.values(), self._goal, wanted)
            total = result.pop("total")
            result["success"] = total == 1.0
            session = replace(session, reward=float(result["success"]) if self.config.binary_reward else total)
        self._go_to(session)
        info = self._info(effective=self._page.url != before) | result
        most = self.config.max_steps
        truncated = not terminated and most is not None and self._steps >= most
        return session.reward, terminated, truncated, info

    def _session_after(self, action: object) -> Session | None:
        """Where an action leads; None if there is no such action on this page."""
        found = _ACTION.fullmatch(action) if isinstance(action, str) and len(action) <= MAX_ACTION else None
        if found is None:
            return None
        verb, argument = found[1].lower(), clean(found[2])
        if verb == "click":
            target = self._page.target(argument.lower())
            return None if target is None else replace(self._session, **target)
        words = tuple(search_words(argument))
        if not words or not self._page.has_search_bar:
            return None
        query = "".join(character for character in argument[:_MAX_QUERY] if character in self._catalogue.characters)
        return replace(self._session, page="results", query=query, results=self._catalogue.search(words))

    def _go_to(self, session: Session) -> None:
        self._session = session
        self._page = Page(session, self._catalogue)
        self._text = show(self._page, self.config.observation_mode)[:MAX_OBSERVATION]

    def _info(self, *, valid: bool = True, effective: bool = False) -> dict[str, Any]:
        return info_of(
            valid=valid,
            effective=effective,
            available_actions=self._page.actions(),
            instruction=self._session.instruction,
            goal=self._session.name,
        )


def open_shop(config: WebShopConfig) -> Catalogue:
    """The catalogue a configuration asks for; built first if need be, which takes a while for large product files."""
    if config.data is None:
        source, folders = generated_source(config.num_products), user_folders()
    else:
        data = config.data.expanduser().absolute()
        source = files_source(data, config.dataset)
        folders = [data if data.is_dir() else data.parent, *user_folders()]
    if config.cache_dir is not None:
        folders = [config.cache_dir.expanduser().absolute()]
    if config.num_products is not None:
        count, products = config.num_products, source.products
        source = replace(
            source,
            name=f"{count}-of-{source.name}",
            key=f"first {count} of {source.key}",
            products=lambda: islice(products(), count),
        )
    return catalogue_from(source, folders)
