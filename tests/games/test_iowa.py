"""The rules of Iowa gambling, by hand."""

import math

import pytest
from tests.games.situations import TOP, act, build, place

from abreast.games.iowa.entities import DECKS, DeckA, DeckB, DeckC, DeckD


@pytest.mark.parametrize(("deck", "net"), [(DeckA, -250), (DeckB, -250), (DeckC, 250), (DeckD, 250)])
def test_ten_cards_have_all_losses_once(deck, net):
    world, cards = build("iowa").world, deck()
    for _ in range(3):
        drawn = [cards.draw(world) for _ in range(10)]
        assert sum(drawn) == net
        assert sorted(drawn) == sorted(
            [deck.gain] * (10 - len(deck.losses)) + [deck.gain - loss for loss in deck.losses]
        )


def test_the_order_of_cards_is_drawn():
    world, cards = build("iowa").world, DeckA()
    assert len({tuple(cards.draw(world) for _ in range(10)) for _ in range(5)}) > 1


def test_walking_into_a_deck_turns_a_card():
    env = build("iowa", "experiment.num_agents=1", "world.scale=0.01")
    place(env, (1, 2))
    deck = DeckD()
    deck.cards = [-200, 50]
    env.world.add((1, 1, TOP), deck)
    assert act(env, 0, "left") == pytest.approx(0.5)
    assert act(env, 0, "left") == pytest.approx(-2.0)
    assert env.agents[0].location == (1, 2, TOP)
    assert env.metrics() == {"cards": 2.0, "good_decks": 1.0}
    env.reset()
    assert env.metrics()["cards"] == 0.0
    assert math.isnan(env.metrics()["good_decks"])


def test_the_four_decks_lie_in_the_corners_somewhere_else_each_epoch():
    env, corners = build("iowa"), [(1, 1), (1, 3), (3, 1), (3, 3)]
    orders = set()
    for _ in range(10):
        env.reset()
        orders.add(tuple(env.world.observe((*corner, TOP)).kind for corner in corners))
    assert len(orders) > 1
    assert all(sorted(order) == sorted(deck.kind for deck in DECKS) for order in orders)
