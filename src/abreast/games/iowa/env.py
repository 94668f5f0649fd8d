"""Iowa gambling as an environment."""

from collections.abc import Mapping

from abreast.games.iowa.agents import IowaAgent
from abreast.games.iowa.entities import DECKS, Carpet
from abreast.games.iowa.world import IowaConfig, IowaWorld
from abreast.games.walkers import WalkersEnv
from abreast.worlds import EmptyEntity, Wall


class IowaEnv(WalkersEnv):
    """Agents turn cards of four decks, and find out what each is worth."""

    world_section = IowaConfig
    world_kind = IowaWorld
    agent_kind = IowaAgent
    seen_kinds = tuple(kind.kind for kind in (Wall, *DECKS, IowaAgent))
    blank_kinds = (EmptyEntity.kind, Carpet.kind)
    world: IowaWorld
    agents: list[IowaAgent]

    def metrics(self) -> Mapping[str, float]:
        """Cards turned, and the share of them that came from the two good decks."""
        cards = {deck: float(sum(agent.cards_of[deck.kind] for agent in self.agents)) for deck in DECKS}
        total, good = sum(cards.values()), sum(list(cards.values())[2:])
        return {"cards": total, "good_decks": good / total if total else float("nan")}
