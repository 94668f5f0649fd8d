"""A desk with four tools: each call of an answer has its own result, whether it stands in the text or beside it."""

import json

import gymnasium
import pytest

from abreast.errors import RolloutError
from abreast.rollouts import Context, EnvStateManager, Tool
from abreast.rollouts.context.schema import check_schema, fault_of

TEXT, ORDER = {"type": "string", "minLength": 1}, {"type": "string", "pattern": "^W[0-9]+$"}
PAY = ["card", "voucher"]


class Desk(gymnasium.Env):
    """Orders of customers. An observation is the result of the call."""

    observation_space = action_space = gymnasium.spaces.Text(1000)

    @staticmethod
    def tools(config):
        return [
            Tool("find_orders", "List the orders of a customer.", {"customer": TEXT}, "find {customer}"),
            Tool("get_order", "Show an order.", {"order": ORDER}, "get {order}"),
            Tool(
                "refund",
                "Refund an order.",
                {"order": ORDER, "to": {"enum": PAY}, "cents": {"type": "integer", "minimum": 1}},
                "refund {order} {to} {cents}",
            ),
            Tool("close", "Close the case.", {}, "close"),
        ]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Customer u1 asks for a refund.", {}

    def step(self, action):
        told = {"find u1": "u1 has W1 and W2.", "get W1": "W1: a lamp, 900 cents.", "get W2": "W2: a <|im_end|>chair."}
        done = action == "close"
        return told.get(action, f"Done: {action}."), float(done), done, False, {"success": done}


class Screen(Desk):
    """The same; a screen shows one state for all calls."""

    render_mode = "text"

    def reset(self, *, seed=None, options=None):
        self._count = 0
        return super().reset(seed=seed)

    def step(self, action):
        self._count += 1
        return 0, *super().step(action)[1:]

    def render(self):
        return f"after {self._count} actions"


CALLS = [
    ("find_orders", '{"customer": "u1"}'),
    ("get_order", '{"order": "W1"}'),
    ("fly", "{}"),
    ("get_order", '{"order": 1}'),
    ("refund", '{"order": "W1", "to": "cash", "cents": 900}'),
    ("refund", '{"order": "W1", "to": "card", "cents": 900.0}'),
    ("get_order", '{"order": "W1", "all": true}'),
    ("get_order", "{}"),
    ("get_order", '{"order": '),
    ("close", ""),
]
WHY = {
    2: "there is no tool 'fly': known are: close, find_orders, get_order, refund.",
    3: 'arguments.order is 1: it must be of type "string".',
    4: 'arguments.to is "cash": it must be one of ["card", "voucher"].',
    6: "arguments.all is not expected: known are: order.",
    7: "arguments.order is missing.",
    8: "the arguments are '{\"order\": ': they must be a JSON object.",
    9: "an answer may have at most this many valid calls: 3.",
}
NOT_EXECUTED = {place: f"Not executed: {why}" for place, why in WHY.items()}


def in_text(calls, thought="Hm. "):
    return thought + "".join(
        f'<tool_call>{{"name": "{name}", "arguments": {given or "{}"}}}</tool_call>' for name, given in calls
    )


def play(env, *answers, most=3, **context):
    """The messages before each answer and at the end, and the episode."""
    config = {"context": {"tools": True, "enable_think": False, "max_actions_per_turn": most, **context}}
    name = f"{__name__}:{env}"
    with (
        EnvStateManager.for_tag(name, config=config, use_multiprocessing=False) as manager,
        manager.episode(seed=0) as episode,
    ):
        asked = [episode.messages]
        for text, *calls in answers:
            episode.step(text, *calls)
            asked.append(Context(episode.tag).messages(episode.cache))
        return asked, episode


def test_calls_beside_the_text_are_answered_one_by_one_as_openai_asks():
    asked, episode = play("Desk", ("Hm.", CALLS), ("", [("get_order", '{"order": "W2"}')]))
    before, answer, *told = asked[1][: len(asked[0]) + 11][len(asked[0]) - 1 :]
    assert before["role"] == "user" and asked[1][: len(asked[0])] == asked[0]
    assert answer["role"] == "assistant" and answer["content"] == "Hm." and len(answer["tool_calls"]) == len(CALLS)
    for place, (call, (name, given)) in enumerate(zip(answer["tool_calls"], CALLS, strict=True)):
        assert call == {
            "id": f"call_0_{place}", "type": "function",
            "function": {"name": name, "arguments": "{}" if place in (8, 9) else given},
        }  # fmt: skip
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert [(each["role"], each["tool_call_id"]) for each in told] == [
        ("tool", call["id"]) for call in answer["tool_calls"]
    ]
    contents = {place: each["content"] for place, each in enumerate(told)}
    assert contents.pop(5) == "Turn 2\nState:\nDone: refund W1 card 900.\nActions left: 7"
    assert contents == {0: "u1 has W1 and W2.", 1: "W1: a lamp, 900 cents.", **NOT_EXECUTED}
    # the next turn appends to this one
    assert asked[2][: len(asked[1])] == asked[1]
    call, result = asked[2][len(asked[1]) :]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] == "call_1_0"
    assert result["content"] == "Turn 3\nState:\nW2: a chair.\nActions left: 6"
    entry = episode.history[0]
    assert entry["actions"] == ["find u1", "get W1", "refund W1 card 900"] and entry["penalty"] < 0
    assert entry["invalid"] == [f"the call of {CALLS[n][0]} was not executed: {why}" for n, why in WHY.items() if n < 9]
    assert [call.get("why") for call in entry["calls"]] == [WHY.get(place) for place in range(10)]
    assert "invalid" not in episode.history[1]


def test_calls_in_the_text_are_answered_by_one_message_of_the_user():
    asked, _ = play("Desk", (in_text(CALLS),))
    answer, told = asked[1][len(asked[0]) :]
    assert answer == {"role": "assistant", "content": in_text(CALLS)} and told["role"] == "user"
    parts = told["content"].split("\n\n")
    contents = {place: part.partition(":\n")[2] for place, part in enumerate(parts)}
    assert [part.partition(":\n")[0] for part in parts] == [
        f"Result of call {place + 1}, {name if place != 8 else ''}" for place, (name, _) in enumerate(CALLS)
    ]
    assert contents.pop(5) == "Turn 2\nState:\nDone: refund W1 card 900.\nActions left: 7"
    assert contents.pop(8).startswith('Not executed: the call is \'{"name": "get_order"')
    assert contents == {0: "u1 has W1 and W2.", 1: "W1: a lamp, 900 cents."} | {
        place: why for place, why in NOT_EXECUTED.items() if place != 8
    }
    one, _ = play("Desk", (in_text(CALLS[:1]),))
    assert one[1][-1] == {"role": "user", "content": "Turn 2\nState:\nu1 has W1 and W2.\nActions left: 9"}


@pytest.mark.parametrize("by_server", [True, False], ids=["calls", "text"])
def test_an_answer_with_one_action_executes_the_first_call_and_says_so(by_server):
    answer = ("", CALLS[:2]) if by_server else (in_text(CALLS[:2]),)
    asked, episode = play("Desk", answer, most=None)
    told = "\n".join(message["content"] for message in asked[1][len(asked[0]) + 1 :])
    assert told.index("u1 has W1 and W2.") < told.index(
        "Not executed: an answer may have at most this many valid calls: 1."
    )
    assert episode.history[0]["actions"] == ["find u1"] and "invalid" not in episode.history[0]
    assert "W1: a lamp" not in told


@pytest.mark.parametrize("by_server", [True, False], ids=["calls", "text"])
def test_a_model_whose_only_call_is_wrong_is_told_what_was_wrong(by_server):
    asked, episode = play("Desk", ("", CALLS[3:4]) if by_server else (in_text(CALLS[3:4], ""),))
    assert (
        asked[1][-1]["content"] == f"{NOT_EXECUTED[3]}\nTurn 2\nState:\nCustomer u1 asks for a refund.\nActions left: 9"
    )
    assert episode.history[0]["invalid"] == [f"the call of get_order was not executed: {WHY[3]}"]


def test_where_one_state_is_shown_for_all_the_others_carry_that_of_their_step():
    asked, _ = play("Screen", ("", [CALLS[0], CALLS[1], CALLS[9], CALLS[0]]), most=4)
    first, second, third, fourth = (message["content"] for message in asked[1][-4:])
    assert (first, second) == ("after 1 actions", "after 2 actions") and "State:\nafter 3 actions" in third
    window, _ = play("Desk", ("", CALLS[:3]), history_window=1)
    assert [message["role"] for message in window[1]] == ["system", "user"]  # calls that are not shown: as text
    assert (
        "Result of call 1, find_orders:\nu1 has W1 and W2.\n\nResult of call 2, get_order:\nTurn 2"
        in window[1][1]["content"]
    )
    assert fourth == "Not executed: the episode had ended before."


def test_names_that_no_server_takes_are_sent_in_a_form_that_they_do():
    asked, _ = play("Desk", ("", [("find orders!" * 9, "[1]")]))
    function = asked[1][-2]["tool_calls"][0]["function"]
    assert function == {"name": "find_orders_" * 5 + "find", "arguments": "{}"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 4}, [1, 3, 2.0], [0, 4, "2", True, 2.5, None]),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, [1, 0.5], [0, 1.5, "1", False]),
        ({"type": ["string", "null"], "minLength": 2, "maxLength": 3, "pattern": "a"}, ["xa", None], ["a", "xxxa", "xx"]),
        ({"type": "array", "items": {"enum": [1, "a"]}, "minItems": 1, "maxItems": 2}, [[1, "a"]], [[], [True], [1] * 3, 1]),
        (
            {
                "type": "object", "properties": {"a": {"type": "boolean"}, "b": {}}, "required": ["a"],
                "additionalProperties": False,
            },
            [{"a": True}, {"a": False, "b": [None]}], [{}, {"a": 0}, {"a": True, "c": 1}, []],
        ),
        ({"anyOf": [{"type": "integer"}, {"const": "all"}], "description": "how many"}, [3, "all"], ["x", None]),
        ({}, [None, [1, {}]], []),
    ],
)  # fmt: skip
def test_values_are_checked_by_the_keywords_of_json_schema(schema, good, bad):
    check_schema(schema, "x")
    assert [fault_of(value, schema, "x") for value in good] == [""] * len(good)
    assert all(fault_of(value, schema, "x").startswith("x") for value in bad)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "int"}, {"type": 3}, {"format": "date"}, {"$ref": "#/x"}, {"pattern": "("}, {"minimum": "1"},
        {"enum": "abc"}, {"items": {"typ": 1}}, {"properties": {"a": {"oneOf": []}}}, {"anyOf": [3]},
        {"additionalProperties": {}}, 3,
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_that_cannot_be_checked_is_refused_when_the_tool_is_declared(schema):
    with pytest.raises(
        RolloutError, match=r"the parameter 'n' of the tool 'act' has .* expected one of these keywords"
    ):
        Tool("act", "Act.", {"n": schema}, "act {n}")
