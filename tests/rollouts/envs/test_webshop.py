"""WebShop, rule by rule."""

import hashlib
import json
import multiprocessing
import pickle
import random
import re
import warnings
from collections import Counter
from functools import cache as cache_of_process
from html import unescape

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts.envs.webshop import KIND, WebShopConfig, WebShopEnv
from abreast.rollouts.envs.webshop import build as build_module
from abreast.rollouts.envs.webshop import catalogue as catalogue_module
from abreast.rollouts.envs.webshop import loader as loader_module
from abreast.rollouts.envs.webshop.catalogue import Goal, Product
from abreast.rollouts.envs.webshop.generate import records, write_files
from abreast.rollouts.envs.webshop.goals import draw_price, draw_price_limit, goal_for_seed, goals_of_split
from abreast.rollouts.envs.webshop.loader import read_object, read_values
from abreast.rollouts.envs.webshop.reward import alike, matched_options, plain_colour, score, title_overlap, type_factor
from abreast.rollouts.envs.webshop.solver import options_to_click
from abreast.rollouts.envs.webshop.words import MAX_WORDS, clean, search_words

MODES = ["text", "text_rich", "html", "url"]


@cache_of_process
def made():
    """All records of the generated catalogue."""
    return list(records())


@pytest.fixture
def shop(cache):
    return lambda **config: WebShopEnv({"cache_dir": cache, **config})


# ---- a tiny shop in the shape of the public files

KETTLE = {
    "asin": "B000KETTLE",
    "name": "Copper Whistling Kettle",
    "category": "kitchen",
    "query": " Tea Kettle ",
    "product_category": "Home & Kitchen › Kettles › Stovetop",
    "pricing": "$24.00",
    "small_description": ["Whistles when ready", "Holds two litres"],
    "full_description": "A kettle for\nevery stove.",
    "customization_options": {
        "Color": [{"value": "Bright Red", "image": None}, {"value": "Black/White"}],
        "Size": [{"value": "Small"}, {"value": "Large"}],
        "Pattern": None,
    },
    "images": ["https://example.org/kettle.jpg"],
    "average_rating": 4.5,
    "reviews": [{"score": 5, "title": "Loud", "body": "Wakes the house."}, {"stars": 2, "review": "Too loud."}],
}
CUP = {"asin": "B0000000ET", "name": "Tin Cup", "query": "cup", "pricing": None, "customization_options": {}}
LABELS = {
    "B000KETTLE": {
        "attributes": ["Whistling", "heat resistant"],
        "instruction": "Find me a heat resistant tea kettle.",
        "instruction_attributes": ["heat resistant"],
    },
    "B0000000ET": {"attributes": []},
}
WISHES = {
    "B000KETTLE": [
        {
            "instruction": "i want a whistling kettle in red.",
            "instruction_attributes": ["Whistling"],
            "instruction_options": ["red"],
        },
        {"instruction": "not usable", "instruction_attributes": [], "instruction_options": []},
    ]
}


def mugs(count):
    """Products that a search for mugs cannot tell apart."""
    return [{"asin": f"MUG{number:03}", "name": "Plain Mug", "query": "mug"} for number in range(count)]


def write(folder, products, labels=LABELS, wishes=WISHES, suffix=""):
    folder.mkdir(exist_ok=True)
    (folder / f"items_shuffle{suffix}.json").write_text(json.dumps(products))
    (folder / f"items_ins_v2{suffix}.json").write_text(json.dumps(labels))
    if wishes is not None:
        (folder / "items_human_ins.json").write_text(json.dumps(wishes))
    return folder


TINY = [KETTLE, CUP, *mugs(60)]


@pytest.fixture
def tiny(tmp_path):
    """A shop with a kettle, a cup and sixty mugs; its only goal is the kettle."""

    def make(products=TINY, labels=LABELS, wishes=WISHES, **config):
        return WebShopEnv({"data": write(tmp_path / "data", products, labels, wishes), **config})

    return make


def walk(env, *actions):
    """Reset, do the actions, and return the last outcome: (observation, reward, terminated, truncated, info)."""
    observation, info = env.reset(seed=0)
    outcome = (observation, 0.0, False, False, info)
    for action in actions:
        outcome = env.step(action)
        assert outcome[4]["action_is_valid"], action
    return outcome


KETTLE_PAGE = ("search[whistling kettle]", "click[B000KETTLE]")


# ---- pages

PAGES = {
    "search": [],
    "results": ["search[copper]"],
    "item": ["search[copper]", "click[b000kettle]", "click[black | white]"],
    "Description": ["search[copper]", "click[b000kettle]", "click[description]"],
    "Features": ["search[copper]", "click[b000kettle]", "click[features]"],
    "Reviews": ["search[copper]", "click[b000kettle]", "click[Reviews]"],
    "Attributes": ["search[copper]", "click[b000kettle]", "click[ATTRIBUTES]"],
    "end": ["search[copper]", "click[b000kettle]", "click[buy now]"],
}
WISH = "i want a whistling kettle in red, and price lower than {:.2f} dollars"
TOP = ["Instruction:", WISH]
IN_TEXT = {
    "search": ["WebShop", *TOP, "Search"],
    "results": [
        *TOP,
        "Back to Search",
        "Page 1 (Total results: 1)",
        "B000KETTLE",
        "Copper Whistling Kettle",
        "$24.00",
    ],
    "item": [
        *TOP,
        *["Back to Search", "< Prev", "color (selected: black | white)", "bright red", "black | white"],
        *["size", "small", "large", "Copper Whistling Kettle", "Price: $24.00", "Rating: 4.5"],
        *["Description", "Features", "Reviews", "Attributes", "Buy Now"],
    ],
    "Description": [*TOP, "Back to Search", "< Prev", "A kettle for every stove."],
    "Features": [*TOP, "Back to Search", "< Prev", "Whistles when ready", "Holds two litres"],
    "Reviews": [*TOP, "Back to Search", "< Prev", "5 stars. Loud. Wakes the house.", "2 stars. Too loud."],
    "Attributes": [*TOP, "Back to Search", "< Prev", "whistling", "heat resistant"],
    "end": ["Thank you for your order", "Your score (min 0.0, max 1.0)", "0.6667"],
}
BUTTONS = {
    "search": [],
    "results": ["back to search", "b000kettle"],
    "item": [
        *["back to search", "< prev", "bright red", "black | white", "small", "large"],
        *["description", "features", "reviews", "attributes", "buy now"],
    ],
    **{name: ["back to search", "< prev"] for name in ("Description", "Features", "Reviews", "Attributes")},
    "end": [],
}


@pytest.fixture
def wish(tiny):
    """The kettle's instruction, with the price limit that was drawn for it."""
    return WISH.format(tiny()._catalogue.goal("human", 0).price_limit)


@pytest.mark.parametrize("page", PAGES)
def test_page_as_text(tiny, wish, page):
    expected = [wish if text == WISH else text for text in IN_TEXT[page]]
    assert walk(tiny(), *PAGES[page])[0].split(" [SEP] ") == expected


@pytest.mark.parametrize("page", PAGES)
def test_page_as_rich_text(tiny, wish, page):
    lines = walk(tiny(observation_mode="text_rich"), *PAGES[page])[0].splitlines()
    marked = re.compile(r"\s*\[(?:clicked )?button\] (.*) \[(?:clicked )?button_\]")
    plain = [found[1] if (found := marked.fullmatch(line)) else line for line in lines]
    assert plain == [wish if text == WISH else text for text in IN_TEXT[page]]
    buttons = [found[1].lower() for line in lines if (found := marked.fullmatch(line))]
    assert buttons == (["search"] if page == "search" else BUTTONS[page])
    assert [line for line in lines if "clicked" in line] == (
        ["  [clicked button] black | white [clicked button_]"] if page == "item" else []
    )


@pytest.mark.parametrize("page", PAGES)
def test_page_as_html(tiny, wish, page):
    html = walk(tiny(observation_mode="html"), *PAGES[page])[0]
    assert html.startswith("<!DOCTYPE html>\n<html>\n<body>") and html.endswith("</body>\n</html>")
    texts = [unescape(re.sub("<[^>]*>", "", line)) for line in html.splitlines()]
    assert [text for text in texts if text] == [wish if text == WISH else text for text in IN_TEXT[page]]
    assert ('id="search_input"' in html) == (page == "search")
    assert html.count(" checked>") == (page == "item")
    assert html.count("https://example.org/kettle.jpg") == (page in ("results", "item"))


@pytest.mark.parametrize(
    ("page", "path"),
    {
        "search": "",
        "results": "/search_results/copper/1",
        "item": "/item_page/B000KETTLE/copper/1/%7B%22color%22%3A%20%22black%20%7C%20white%22%7D",
        "Description": "/item_sub_page/B000KETTLE/copper/1/Description/",
        "Features": "/item_sub_page/B000KETTLE/copper/1/Features/",
        "Reviews": "/item_sub_page/B000KETTLE/copper/1/Reviews/",
        "Attributes": "/item_sub_page/B000KETTLE/copper/1/Attributes/",
        "end": "/done/B000KETTLE/",
    }.items(),
)
def test_page_as_url(tiny, page, path):
    assert walk(tiny(observation_mode="url"), *PAGES[page])[0] == f"http://webshop/human-0{path}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("page", PAGES)
def test_legal_actions_are_listed_whatever_the_mode(tiny, page, mode):
    search = ["search[<words>]"] if page == "search" else []
    listed = walk(tiny(observation_mode=mode), *PAGES[page])[4]["available_actions"]
    assert listed == search + [f"click[{text}]" for text in BUTTONS[page]]


def test_render_gives_the_observation(tiny):
    env = tiny()
    with pytest.raises(RolloutError, match="call reset first"):
        env.render()
    assert walk(env, "search[copper]")[0] == env.render()


def test_results_are_fifty_at_most_ten_a_page(tiny):
    env = tiny(max_steps=100)
    text, *_, info = walk(env, "search[mug]")
    pages = [re.findall(r"MUG\d+", text)]
    assert "Page 1 (Total results: 50)" in text and "click[< prev]" not in info["available_actions"]
    while "click[next >]" in info["available_actions"]:
        text, *_, info = env.step("click[next >]")
        pages.append(re.findall(r"MUG\d+", text))
        assert "click[< prev]" in info["available_actions"]
    assert pages == [[f"MUG{page * 10 + place:03}" for place in range(10)] for page in range(5)]  # ties: as in the file
    assert "Page 5 (Total results: 50)" in text
    text, *_ = env.step("click[< prev]")
    assert "Page 4 " in text and "MUG030" in text


def test_the_way_back_leads_to_the_same_page_of_results(tiny):
    env = tiny()
    results = walk(env, "search[mug]", "click[next >]")[0]
    env.step("click[mug012]")
    assert env.step("click[< prev]")[0] == results
    env.step("click[mug012]")
    text, *_, info = env.step("click[back to search]")
    assert text.startswith("WebShop [SEP] ") and info["available_actions"] == ["search[<words>]"]


def test_products_seen_before_are_marked(tiny):
    text = walk(tiny(observation_mode="text_rich"), "search[mug]", "click[mug003]", "click[< prev]")[0]
    assert [line for line in text.splitlines() if "clicked" in line] == ["[clicked button] MUG003 [clicked button_]"]


def test_a_search_without_a_hit_has_an_empty_page(tiny):
    text, _, _, _, info = walk(tiny(), "search[submarine]")
    assert text.endswith("Page 1 (Total results: 0)")
    assert info["available_actions"] == ["click[back to search]"]


def test_what_a_product_does_not_have_is_said(tiny):
    env = tiny()
    for sub_page in ("description", "features", "reviews", "attributes"):
        text = walk(env, "search[tin cup]", "click[b0000000et]", f"click[{sub_page}]")[0]
        assert text.endswith(f"No {sub_page}.")


# ---- options


def test_a_chosen_option_is_marked_and_can_be_changed(tiny):
    env = tiny()
    walk(env, *KETTLE_PAGE)
    for action, heading, effective in [
        ("click[Bright RED]", "color (selected: bright red)", True),
        ("click[bright red]", "color (selected: bright red)", False),
        ("click[black | white]", "color (selected: black | white)", True),
    ]:
        text, reward, terminated, _, info = env.step(action)
        assert f" [SEP] {heading} [SEP] " in text and " [SEP] size [SEP] " in text
        assert (reward, terminated, info["action_is_effective"]) == (0.0, False, effective)
    assert "size (selected: large)" in env.step("click[large]")[0]


def test_choices_last_through_sub_pages_but_not_through_the_results(tiny):
    env = tiny()
    walk(env, *KETTLE_PAGE, "click[bright red]", "click[reviews]")
    assert "color (selected: bright red)" in env.step("click[< prev]")[0]
    env.step("click[< prev]")
    assert "selected" not in env.step("click[b000kettle]")[0]


def test_a_value_of_two_options_is_chosen_in_one_after_the_other(tiny):
    both = [{"value": "Small"}, {"value": "Buy Now"}]
    env = tiny([{**KETTLE, "customization_options": {"Cup": both, "Lid": both}}])
    text = walk(env, *KETTLE_PAGE, "click[small]")[0]
    assert "cup (selected: small)" in text and "lid (selected" not in text
    assert "lid (selected: small)" in env.step("click[small]")[0]
    assert env.step("click[buy now]")[2]  # a button comes before an option of the same name


# ---- the reward, computed by hand


def product(title="Steel Garlic Press", **fields):
    empty = {"price": 10.0, "price_tag": "$10.00", "query": "", "categories": [], "bullets": [], "description": ""}
    more = {"options": {}, "attributes": [], "rating": "N.A.", "reviews": [], "image": ""}
    return Product(**{"asin": "A", "title": title, **empty, **more, **fields})


def goal(attributes=(), options=(), price_limit=None):
    return Goal("A", "", list(attributes), list(options), price_limit)


def test_reward_is_the_share_of_what_fits():
    wanted = product(attributes=["dishwasher safe", "easy grip"], price=19.0)
    wish = goal(["easy grip", "rust proof", "dishwasher safe"], ["red", "large"], 20.0)
    result = score(wanted, ["bright red"], wish, wanted)
    assert result == pytest.approx(
        {"total": (2 + 1 + 1) / (3 + 2 + 1), "r_type": 1.0, "r_attributes": 2 / 3, "r_options": 0.5, "r_price": 1.0}
    )
    assert score(wanted, [], wish, wanted)["total"] == pytest.approx(3 / 6)


@pytest.mark.parametrize(("price", "limit", "total"), [(20.0, 20.0, 1.0), (20.01, 20.0, 0.5), (999.0, None, 1.0)])
def test_price_counts_up_to_the_limit(price, limit, total):
    bought = product(attributes=["easy grip"], price=price)
    assert score(bought, [], goal(["easy grip"], [], limit), bought)["total"] == total


@pytest.mark.parametrize(
    ("bought", "found"),
    [
        (product(attributes=["essential oil"]), True),  # 96 % alike
        (product(attributes=["oils, essential and pure"]), True),  # all its words, in another order
        (product(attributes=["oil"]), False),
        (product("Soap with Essential Oils"), True),
        (product(bullets=["made of", "ESSENTIAL OILS only"]), True),
        (product(description="rich in essential oils"), True),
        (product(description="essential for oils"), False),
    ],
)
def test_attributes_are_found_by_likeness_or_in_the_text(bought, found):
    assert score(bought, [], goal(["essential oils"]), bought)["r_attributes"] == found


def test_likeness_is_above_85():
    assert alike("abcdefghijklmnopqrs", "abcdefghijklmnopqrx")  # 94.7
    assert not alike("abcdefghijklmnopqrst", "abcdefghijklmnopqxyz")  # 85.0: not above
    assert alike("Pack of 12", "12 - of: pack")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("dark blue", "blue"),
        ("Navy Blue", "navy"),
        ("gray | 2 pack", "grey"),
        ("light-grey", "grey"),
        ("infrared", "infrared"),
        ("10 inch", "10 inch"),
    ],
)
def test_colours_lose_their_shade(value, plain):
    assert plain_colour(value) == plain


@pytest.mark.parametrize(
    ("chosen", "wanted", "matches"),
    [
        (["pack of 12", "light grey", "xl"], ["gray", "xl", "pack of 12"], 3),
        (["pack of 12", "blue", "xl"], ["grey", "xl", "pack of 12"], 2),
        (["cool powder snow"], ["powder snow"], 1),
        ([], ["red"], 0),
        (["red"], [], 0),
        (["red", "dark red"], ["red"], 1),  # a goal's option counts once
    ],
)
def test_options_match_what_was_chosen(chosen, wanted, matches):
    assert matched_options(chosen, wanted) == matches


def test_an_option_is_not_fulfilled_by_the_title():
    bought = product("Red Garlic Press")
    assert score(bought, [], goal(["garlic"], ["red"]), bought)["total"] == pytest.approx(2 / 3)


TEN_WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa"


@pytest.mark.parametrize(
    ("title", "query", "categories", "factor"),
    [
        ("alpha beta gamma", "x", [], 1.0),  # 0.3 of the words
        ("alpha beta", "x", [], 0.5),  # 0.2 is not enough
        ("alpha beta", "lamp", [], 1.0),  # the query is the same
        ("alpha beta", "x", ["Home", "Light", "Other"], 1.0),  # two categories are
        ("alpha beta", "x", ["Home", "Other", "Home"], 0.5),  # only one is
        ("alpha", "x", [], 0.5),  # 0.1 is not below 0.1
        ("omega", "lamp", ["Home", "Light"], 0.0),  # nothing of the title, whatever the rest says
    ],
)
def test_kind_of_product(title, query, categories, factor):
    wanted = product(TEN_WORDS, query="lamp", categories=["Light", "Home"])
    assert type_factor(product(title, query=query, categories=categories), wanted) == factor


def test_a_title_with_next_to_nothing_in_common_counts_a_tenth():
    wanted = product(f"{TEN_WORDS} lambda", query="lamp", categories=["Light", "Home"])
    near = product("alpha", query="lamp", categories=["Light", "Home"])
    assert type_factor(near, wanted) == 0.1
    assert score(near, [], goal([], [], 20.0), wanted)["total"] == pytest.approx(0.1)


def test_products_without_a_query_are_not_alike_for_it():
    assert type_factor(product("alpha beta"), product(TEN_WORDS)) == 0.5


def test_title_overlap_counts_words_that_say_something():
    assert title_overlap("The Lamp for You", "A Lamp, with the Shade") == 0.5
    assert title_overlap("Lamp", "for the") == 0.2


@pytest.mark.parametrize(
    ("choices", "reward"), [([], 2 / 3), (["click[bright red]"], 1.0), (["click[black | white]"], 2 / 3)]
)
def test_buying_ends_the_episode_with_the_reward(tiny, choices, reward):
    env = tiny()
    walk(env, *KETTLE_PAGE, *choices)
    text, got, terminated, truncated, info = env.step("click[buy now]")
    assert got == pytest.approx(reward) and text.endswith(f"{reward:.4g}")
    assert (terminated, truncated, info["success"]) == (True, False, reward == 1)
    assert (info["r_type"], info["r_attributes"], info["r_price"]) == (1.0, 1.0, 1.0)
    assert info["r_options"] == (1.0 if reward == 1 else 0.0)
    with pytest.raises(RolloutError, match="call reset first"):
        env.step("click[buy now]")


def test_buying_something_else_gains_nothing(tiny):
    env = tiny()
    walk(env, "search[tin cup]", "click[b0000000et]")
    _, reward, terminated, _, info = env.step("click[buy now]")
    assert (reward, terminated, info["success"], info["r_type"]) == (0.0, True, False, 0.0)


# ---- goals, prices, splits


def test_goals_in_shoppers_words_come_first(tiny):
    assert "i want a whistling kettle in red, and price lower than" in walk(tiny())[0]
    assert "Find me a heat resistant tea kettle with color: " in walk(tiny(human_goals=False))[0]
    assert "Find me a heat resistant tea kettle with color: " in walk(tiny(wishes={}))[0]


def test_made_up_goals_name_one_value_of_each_option(tiny):
    info = walk(tiny(human_goals=False))[4]
    pattern = (
        r"Find me a heat resistant tea kettle with color: (bright red|black \| white), and size: (small|large), "
        r"and price lower than (40|50|60)\.00 dollars"
    )
    assert re.fullmatch(pattern, info["instruction"])
    assert info["goal"] == "synthetic-0"


def test_price_limits_are_the_larger_of_two_of_the_next_four_round_sums():
    drawn = Counter(draw_price_limit(30.0, number) for number in range(3000))  # 30 itself is not above 30
    assert set(drawn) == {50.0, 60.0, 70.0}
    assert drawn[50.0] == pytest.approx(500, abs=90) and drawn[70.0] == pytest.approx(1500, abs=120)
    assert {draw_price_limit(975.0, number) for number in range(50)} == {990.0}
    assert draw_price_limit(985.0, 1) is None and draw_price_limit(5000.0, 1) is None


def test_prices_lie_in_their_range_and_never_change():
    prices = [draw_price(f"P{number}", 10.0, 20.0) for number in range(200)]
    assert min(prices) >= 10 and max(prices) <= 20 and len(set(prices)) > 150
    assert prices[:3] == [draw_price(f"P{number}", 10.0, 20.0) for number in range(3)]
    assert draw_price("P0", 7.0, 7.0) == 7.0
    assert (draw_price("B000KETTLE", 10.0, 20.0), draw_price_limit(24.0, "B000KETTLE")) == (17.55, 50.0)


def test_an_expensive_goal_has_no_limit(tiny):
    info = walk(tiny([{**KETTLE, "pricing": "$2,500.00"}]))[4]
    assert info["instruction"] == "i want a whistling kettle in red"


@pytest.mark.parametrize(
    ("count", "test", "val", "train"),
    [
        (3000, range(500), range(500, 1500), range(1500, 3000)),
        (1501, range(500), range(500, 1500), range(1500, 1501)),
        (1500, range(250), range(250, 750), range(750, 1500)),
        (60, range(10), range(10, 30), range(30, 60)),
        (3, range(1), range(1, 2), range(2, 3)),
        (2, range(2), range(2), range(2)),
    ],
)
def test_splits(count, test, val, train):
    assert [goals_of_split(split, count) for split in ("test", "val", "train")] == [test, val, train]


@pytest.mark.parametrize("seed", [0, 7, 499, 500, 1234, 10_000])
def test_seeds_go_through_the_goals_of_a_split(seed):
    assert goal_for_seed("test", seed, 6910) == seed % 500
    assert goal_for_seed("val", seed, 6910) == 500 + seed % 1000
    assert goal_for_seed("train", seed, 6910) == 1500 + seed % 5410


def test_the_environment_follows_its_split(shop):
    for split, place in [("test", 123 % 500), ("val", 500 + 123), ("train", 1500 + 123)]:
        assert shop(split=split).reset(seed=123)[1]["goal"] == f"human-{place}"


def test_goals_are_shuffled_by_a_fixed_permutation(shop):
    env = shop()
    order = [env._catalogue.goal("human", place).asin for place in range(3000)]
    products = [record["asin"] for record, _, _ in made()]
    assert sorted(order) == sorted(products) and order != products
    kinds = {env._catalogue.product(asin).query for asin in order[:200]}
    assert len(kinds) > 30


# ---- actions that are none


@pytest.mark.parametrize(
    "action",
    [
        "",
        "buy now",
        "click[]",
        "click[buy now]",  # not on this page
        "click[search]",
        "search[]",
        "search[ .,;!? ]",
        "search red shoes",
        "click[b000kettle",
        "think[x]",
        "\0",
        "\ud800",
        "search[" + "x" * 1_000_000 + "]",
        None,
        3,
        b"search[mug]",
        ["search[mug]"],
    ],
)
def test_unknown_actions_change_nothing(tiny, action):
    env = tiny(max_steps=1)
    before = walk(env)[0]
    text, reward, terminated, truncated, info = env.step(action)
    assert (text, reward, terminated, truncated) == (before, 0.0, False, False)
    assert (info["success"], info["action_is_valid"], info["action_is_effective"]) == (False, False, False)
    assert info["available_actions"] == ["search[<words>]"]
    assert not env.step("search[mug]")[2]  # and the episode goes on


def test_search_needs_a_search_bar(tiny):
    env = tiny()
    for action in ("search[mug]", "click[mug001]", "click[reviews]"):
        walk(env, *PAGES["item"][:1])
        env.step(action)
        assert not env.step("search[kettle]")[4]["action_is_valid"]


@pytest.mark.parametrize(
    "words",
    [
        '"mug"',
        "mug AND",
        "mug NOT plain",
        "mug*",
        "text:mug",
        "NEAR(mug plain)",
        "(mug",
        "mug)",
        "^mug",
        "mug -plain",
        "{mug}",
        "mug'; DROP TABLE products; --",
        "mug\0",
        "mug \ud800",
        "MÜG mug",
        "mug ＰＬＡＩＮ",
        "[mug]",
        "the mug",
        "mugs",
        "mug " + "word " * 390,
    ],
)
def test_any_text_can_be_searched_for(tiny, words):
    text, reward, _, _, info = walk(tiny(), f"search[{words}]")
    assert "MUG000" in text and reward == 0 and info["action_is_effective"]


def test_searches_are_bounded():
    assert len(search_words(" ".join(f"w{number}" for number in range(500)))) == MAX_WORDS
    assert search_words("I need the RED shoes, red!") == ["red", "shoes"]
    assert search_words("the of") == ["the", "of"]


def test_best_hits_come_first(tiny):
    text = walk(tiny(), "search[plain mug kettle]")[0]
    assert text.index("B000KETTLE") < text.index("MUG000")  # kettle is the rarer word


def test_case_and_blanks_around_do_not_matter(tiny):
    env = tiny()
    walk(env, "  SEARCH[Copper]\n", "Click [ B000Kettle ]", "CLICK[Bright red]")
    assert env.step("click[BUY NOW]")[2]


def test_max_steps_cuts_off(tiny):
    env = tiny(max_steps=2)
    assert walk(env, "search[mug]")[2:4] == (False, False)
    assert env.step("click[next >]")[2:4] == (False, True)
    with pytest.raises(RolloutError, match="call reset first"):
        env.step("click[next >]")
    assert walk(env, "search[copper]")[2:4] == (False, False)  # counted anew


def test_buying_with_the_last_step_is_no_cut(tiny):
    assert walk(tiny(max_steps=3), *KETTLE_PAGE, "click[buy now]")[2:4] == (True, False)


# ---- loading


def test_product_files_are_read_as_they_are(tiny):
    kettle = tiny()._catalogue.product("B000KETTLE")
    assert kettle == Product(
        asin="B000KETTLE",
        title="Copper Whistling Kettle",
        price=24.0,
        price_tag="$24.00",
        query="tea kettle",
        categories=["Home & Kitchen", "Kettles", "Stovetop"],
        bullets=["Whistles when ready", "Holds two litres"],
        description="A kettle for every stove.",
        options={"color": ["bright red", "black | white"], "size": ["small", "large"]},
        attributes=["whistling", "heat resistant"],
        rating="4.5",
        reviews=["5 stars. Loud. Wakes the house.", "2 stars. Too loud."],
        image="https://example.org/kettle.jpg",
    )


@pytest.mark.parametrize(
    ("pricing", "tag"),
    [
        ("$19.99", "$19.99"),
        ("$10.00 - $20.50", "$10.00 to $20.50"),
        ("$20.50$10.00", "$10.00 to $20.50"),
        ("$1,299.00", "$1299.00"),
        ("", "$100.00"),
        (None, "$100.00"),
        ("free", "$100.00"),
        (12, "$100.00"),
    ],
)
def test_prices_are_read(tiny, pricing, tag):
    kettle = tiny([{**KETTLE, "pricing": pricing}])._catalogue.product("B000KETTLE")
    assert kettle.price_tag == tag
    lowest, highest = float(tag.split()[0][1:]), float(tag.split()[-1][1:])
    assert lowest <= kettle.price <= highest


def test_uneven_records_are_taken_as_far_as_they_go(tiny):
    odd = {
        "asin": "ODD",
        "name": "Odd Thing",
        "query": None,
        "product_category": 7,
        "small_description": "one bullet",
        "full_description": None,
        "customization_options": {"Size": [{"value": " "}, {}, "x", {"value": "m"}, {"value": "M"}], "": [], "C": 3},
        "images": None,
        "average_rating": "",
        "reviews": [None, {}, {"title": "ok"}],
    }
    others = [{"asin": "nan", "name": "no number"}, {"name": "none"}, {"asin": "NAMELESS", "name": ""}, {"asin": 5}]
    again = {"asin": "odd", "name": "A second one of this number"}
    env = tiny([*others, odd, again, KETTLE])
    assert env._catalogue.search(("thing",)) == ("ODD",)
    assert env._catalogue.search(("second",)) == () and env._catalogue.search(("none",)) == ()
    thing = env._catalogue.product("ODD")
    assert (thing.bullets, thing.options, thing.rating, thing.reviews) == (
        ["one bullet"],
        {"size": ["m"]},
        "N.A.",
        ["ok"],
    )
    assert (thing.query, thing.categories, thing.description, thing.image) == ("", [], "", "")


def test_goals_of_odd_entries_are_left_out(tiny):
    wishes = {
        "B000KETTLE": [
            None,
            {"instruction": 3, "instruction_attributes": ["x"]},
            {"instruction": "no attributes"},
            {
                "instruction": "a kettle",
                "instruction_attributes": ["whistling"],
                "instruction_options": {"color": "Red"},
            },
        ],
        "UNKNOWN": [{"instruction": "lost", "instruction_attributes": ["x"]}],
        "MUG000": "junk",
    }
    env = tiny(wishes=wishes)
    assert env._catalogue.goal_counts == {"human": 1, "synthetic": 1}
    assert env._catalogue.goal("human", 0).options == ["red"]


@pytest.mark.parametrize("mode", MODES)
def test_other_alphabets_pass(tiny, mode):
    exotic = {
        **KETTLE,
        "name": "Café Kettle ☕ 茶壶 № 5 😀 naïve\u200b\x07 ﬁne™",
        "customization_options": {"Größe": [{"value": "Groß ½"}, {"value": "小"}]},
        "full_description": "e\u0301t\u00e9 \ud83d\ude00 \u202e ‘quoted’ Ω",
    }
    env = tiny([exotic], observation_mode=mode, max_steps=50)
    observation, info = env.reset(seed=0)
    assert observation in env.observation_space
    for action in ("search[茶壶 café]", "click[b000kettle]", "click[小]", "click[GROSS 1⁄2]", "click[description]"):
        observation, *_, info = env.step(action)
        assert observation in env.observation_space
        assert info["action_is_valid"] == (action != "click[GROSS 1⁄2]")
    assert env._catalogue.product("B000KETTLE").title == "Café Kettle ☕ 茶壶 No 5 naïve fineTM"
    assert env._catalogue.product("B000KETTLE").options == {"größe": ["groß 1⁄2", "小"]}


def test_cleaned_text_is_one_line():
    assert clean(" a\n\tb\u00a0c\x00\u200bd ") == "a b cd"
    assert clean(None) == clean(3) == ""


def test_a_changed_file_is_loaded_anew(tiny, tmp_path):
    first = tiny()
    assert "Copper" in walk(first, "search[kettle]")[0]
    second = tiny([{**KETTLE, "name": "Silver Whistling Kettle"}])
    assert "Silver" in walk(second, "search[kettle]")[0]
    assert "Copper" in walk(first, "search[kettle]")[0]  # whoever plays on in the old one is not disturbed
    assert len(list((tmp_path / "data").glob("*.sqlite"))) == 1


def test_an_unchanged_file_is_not_loaded_again(tiny, monkeypatch):
    env = tiny()
    monkeypatch.setattr(build_module, "_build_whole", None)
    again = WebShopEnv(env.config)
    assert again._catalogue is env._catalogue


def test_a_damaged_catalogue_is_built_again(tiny, tmp_path):
    tiny()
    (path,) = (tmp_path / "data").glob("*.sqlite")
    catalogue_module._OPEN.clear()
    path.write_bytes(b"not a database")
    assert "B000KETTLE" in walk(tiny(), "search[kettle]")[0]


def test_a_folder_with_several_files_needs_a_name(tmp_path):
    folder = write(tmp_path / "data", [KETTLE])
    write(folder, [{**KETTLE, "name": "Small Kettle"}], suffix="_1000")
    with pytest.raises(ConfigError, match=r"Found: items_shuffle\.json, items_shuffle_1000\.json; name the one to use"):
        WebShopEnv({"data": folder})
    env = WebShopEnv({"data": str(folder / "items_shuffle_1000.json")})
    assert "Small Kettle" in walk(env, "search[kettle]")[0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("items_shuffle.json", "[{]", "cannot be read as JSON"),
        ("items_shuffle.json", '[{"asin": "A"}', "it ends too early"),
        ("items_shuffle.json", '{"asin": "A"}', r"expected '\['"),
        ("items_shuffle.json", "[3]", "product 1 is 3, expected an object"),
        ("items_shuffle.json", "[" * 100_000, "cannot be read as JSON"),
        ("items_ins_v2.json", "", r"expected '\{'"),
        ("items_ins_v2.json", "{}", "hold no goal"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content, message):
    folder = write(tmp_path / "data", [KETTLE], wishes=None)
    (folder / name).write_text(content)
    with pytest.raises(ConfigError, match=message):
        WebShopEnv({"data": folder})
    assert not list(folder.glob(".*.part"))


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere: expected a file called items_shuffle\*\.json"):
        WebShopEnv({"data": tmp_path / "nowhere"})
    with pytest.raises(ConfigError, match=r"items_shuffle\*\.json, or a folder with one. Found: none"):
        WebShopEnv({"data": tmp_path})
    folder = write(tmp_path / "data", [KETTLE])
    with pytest.raises(ConfigError, match="expected a file called items_shuffle"):
        WebShopEnv({"data": folder / "items_ins_v2.json"})
    (folder / "items_ins_v2.json").unlink()
    with pytest.raises(ConfigError, match=r"no file .*items_ins_v2\.json"):
        WebShopEnv({"data": folder})


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_files_are_read_in_pieces(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(loader_module, "_CHUNK", chunk)
    values = [KETTLE, {"nested": [[], {"a": "]},{["}]}, 'text \\ " é', [1, 2]]
    for indent in (None, 2):
        (tmp_path / "list.json").write_text(json.dumps(values, indent=indent), encoding="utf-8-sig")
        (tmp_path / "object.json").write_text(json.dumps(LABELS, indent=indent))
        assert list(read_values(tmp_path / "list.json", "[", "]")) == values
        assert dict(read_object(tmp_path / "object.json")) == LABELS
    (tmp_path / "list.json").write_text(" [ ] ")
    assert list(read_values(tmp_path / "list.json", "[", "]")) == []


def test_a_place_that_cannot_be_written_is_passed_over(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # a folder below a file cannot be made
    monkeypatch.setattr(build_module.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    writable = build_module._writable
    monkeypatch.setattr(build_module, "_writable", lambda folder: folder.name != "data" and writable(folder))
    assert "B000KETTLE" in walk(tiny(), "search[kettle]")[0]
    assert len(list((tmp_path / "temporary").glob("*/*.sqlite"))) == 1
    with pytest.raises(ConfigError, match=r"cannot be written to .*file.*: set cache_dir"):
        tiny([KETTLE], cache_dir=tmp_path / "file" / "below")


def _build_and_report(config, queue):
    queue.put(WebShopEnv(config).reset(seed=0)[0])


def test_several_processes_may_build_at_once(tmp_path):
    config = {"data": write(tmp_path / "data", [KETTLE, *mugs(200)])}
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    workers = [context.Process(target=_build_and_report, args=(config, queue)) for _ in range(4)]
    for worker in workers:
        worker.start()
    texts = [queue.get() for _ in workers]
    for worker in workers:
        worker.join()
    assert len(set(texts)) == 1 and "whistling kettle" in texts[0]
    files = sorted(path.suffix for path in (tmp_path / "data").iterdir() if "items" in path.name)
    assert files == [".json", ".json", ".json", ".lock", ".sqlite"]


def test_the_generated_catalogue_goes_through_files_too(shop, tmp_path):
    write_files(tmp_path, count=80)
    small, large = WebShopEnv({"data": tmp_path}), shop()
    for record, _, wishes in records(80):
        assert small._catalogue.product(record["asin"]) == large._catalogue.product(record["asin"])
        assert len(wishes) == 1
    assert small._catalogue.goal_counts == {"human": 80, "synthetic": 80}


def test_the_generated_catalogue_never_changes(shop):
    assert hashlib.blake2b(json.dumps(made()).encode(), digest_size=8).hexdigest() == "9bbae2ea4fcd47d7"
    env = shop()
    goals = [env._catalogue.goal(kind, place) for kind in ("human", "synthetic") for place in range(3000)]
    assert all(goal.attributes and goal.options and goal.price_limit for goal in goals)
    assert hashlib.blake2b(repr(goals).encode(), digest_size=8).hexdigest() == "56b9cb95aea02eee"


def test_every_generated_goal_can_be_reached(shop):
    env = shop()
    for kind in ("human", "synthetic"):
        for place in range(0, 3000, 10):
            wish = env._catalogue.goal(kind, place)
            wanted = env._catalogue.product(wish.asin)
            assert score(wanted, wish.options, wish, wanted)["total"] == 1.0


# ---- the same for the same seed


def play(env, seed, steps=12):
    """An episode of random legal actions, as text."""
    dice = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    told = [observation, info]
    for _ in range(steps):
        action = info["available_actions"][int(dice.integers(len(info["available_actions"])))]
        observation, reward, terminated, truncated, info = env.step(action.replace("<words>", info["instruction"]))
        told += [action, observation, reward, terminated, truncated, info]
        if terminated or truncated:
            break
    return told


def test_the_same_seed_gives_the_same_episode(shop):
    env = shop()
    first = [play(env, seed) for seed in range(10)]
    assert [play(env, seed) for seed in range(10)] == first
    assert [play(shop(), seed) for seed in range(10)] == first
    assert len({episode[0] for episode in first}) == 10


def test_resets_without_a_seed_go_on_from_the_last_one(shop):
    def goals(env):
        return [env.reset(seed=5)[1]["goal"]] + [env.reset()[1]["goal"] for _ in range(5)]

    env = shop()
    assert goals(env) == goals(env) == goals(shop())
    assert len(set(goals(env))) > 3


def test_an_episode_goes_on_after_pickling(shop):
    env = shop()
    _, info = env.reset(seed=3)
    env.step(f"search[{info['instruction']}]")
    *_, info = env.step("click[next >]")
    actions = [info["available_actions"][-1], "click[features]", "click[< prev]", "click[buy now]"]
    copy = pickle.loads(pickle.dumps(env))
    assert [copy.step(action) for action in actions] == [env.step(action) for action in actions]
    assert copy.reset()[0] == env.reset()[0]


def _step_and_report(env, queue):
    queue.put([env.step("search[kettle]"), env.step("click[b000kettle]"), env.step("click[buy now]")])


def test_an_episode_goes_on_after_a_fork(tiny):
    env = tiny()
    walk(env)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    worker = context.Process(target=_step_and_report, args=(env, queue))
    worker.start()
    there = queue.get()
    worker.join()
    assert there == [env.step("search[kettle]"), env.step("click[b000kettle]"), env.step("click[buy now]")]


def test_nothing_grows_over_resets(shop):
    env = shop()
    play(env, 1)
    env.reset(seed=1)
    size = len(pickle.dumps(env))
    for seed in range(40):
        play(env, seed)
    env.reset(seed=1)
    assert len(pickle.dumps(env)) == size


def test_environments_do_not_disturb_each_other(shop):
    alone = play(shop(), 4)
    one, other = shop(), shop()
    one.reset(seed=4)
    other.reset(seed=9)
    other.step("search[shoes]")
    other.observation_space.seed(1)
    assert play(one, 4) == alone
    assert one.observation_space is not other.observation_space


def test_global_random_state_is_not_touched(shop, tmp_path):
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    write_files(tmp_path, count=40)
    play(WebShopEnv({"data": tmp_path}), 1)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


# ---- Gymnasium's contract


@pytest.mark.parametrize("mode", MODES)
def test_gymnasium_agrees(shop, mode):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(shop(observation_mode=mode), skip_render_check=False)
    told = [str(warning.message) for warning in caught]
    assert [text for text in told if "alternative render modes" not in text] == []


@pytest.mark.parametrize("mode", MODES)
def test_observations_and_actions_lie_in_their_spaces(shop, mode):
    env = shop(observation_mode=mode)
    for seed in range(10):
        told = play(env, seed)
        observations, actions = [told[0], *told[3::6]], told[2::6]
        assert all(text in env.observation_space for text in observations)
        assert all(text in env.action_space for text in actions)


def test_info_has_what_every_environment_has(shop):
    info = shop().reset(seed=1)[1]
    assert (info["success"], info["action_is_valid"], info["action_is_effective"]) == (False, True, False)


# ---- solver


def solve_episode(env, seed, budget=10):
    """One episode of the solver, as the manager runs it; returns reward and success."""
    state, _ = env.reset(seed=seed)
    history = [{"state": state, "actions_left": budget}]
    while history[-1]["actions_left"] > 0:
        actions = KIND.solver(env.config, history)
        assert 0 < len(actions) <= history[-1]["actions_left"]
        for action in actions:
            state, reward, terminated, _, info = env.step(action)
            assert info["action_is_valid"]
        if terminated:
            return reward, info["success"]
        left = history[-1]["actions_left"] - len(actions)
        history[-1] |= {"actions": actions, "reward": reward, "info": info}
        history.append({"state": state, "actions_left": left})
    return 0.0, False


def test_solver_shops_well(shop):
    rewards, successes = zip(*(solve_episode(shop(), seed) for seed in range(30)), strict=True)
    assert np.mean(rewards) > 0.9 and np.mean(successes) > 0.7
    random_rewards = [sum(play(shop(), seed)[4::6]) for seed in range(30)]
    assert np.mean(random_rewards) < 0.3


def test_solver_reads_every_mode_that_shows_pages(shop):
    text, *others = ([solve_episode(shop(observation_mode=mode), seed) for seed in range(10)] for mode in MODES[:3])
    assert others == [text, text]
    with pytest.raises(ConfigError, match="observation_mode is url"):
        solve_episode(shop(observation_mode="url"), 1)


def test_solver_keeps_to_its_budget(shop):
    for budget in (1, 2, 3, 4):
        solve_episode(shop(), 2, budget)


def test_solver_clicks_the_longest_value():
    actions = ["click[< prev]", "click[large]", "click[x-large]", "click[red]", "click[description]"]
    assert options_to_click(actions, "a red belt, x-large, with description") == ["click[x-large]", "click[red]"]


# ---- settings


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"observation_mode": "picture"}, "observation_mode is 'picture'"),
        ({"split": "dev"}, "split is 'dev'"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"human_goals": "yes"}, "human_goals is 'yes'"),
        ({"data": 3}, "data is 3"),
        ({"observationmode": "text"}, "did you mean 'observation_mode'"),
    ],
)
def test_wrong_settings_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        WebShopEnv(config)


def test_settings_may_be_given_as_they_are(cache):
    config = WebShopConfig(cache_dir=cache)
    assert WebShopEnv(config).config is config
    assert KIND.config is WebShopConfig and KIND.env is WebShopEnv
