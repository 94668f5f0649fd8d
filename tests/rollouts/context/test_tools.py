"""Actions as tools: schemas, calls in answers, messages, and masks."""

import json

import gymnasium
import pytest

from abreast.errors import RolloutError
from abreast.rollouts import Context, EnvStateManager, find_tag
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.context.tokens import prompt_ids, tokenize
from abreast.rollouts.registry import Tool

from .tokenizers import END, CharTokenizer, chatml

LAKE = {"context": {"tools": True, "enable_think": False}}


def call(name="act", **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def context_of(tag="FrozenLake", **more):
    return Context(find_tag(tag, {}, context=ContextConfig.parse({"tools": True, **more})))


def test_the_actions_of_a_tag_are_one_tool_and_a_type_may_declare_its_own():
    (act,) = context_of().tools.schemas
    assert act["function"]["parameters"]["properties"]["action"]["enum"] == ["Down", "Left", "Right", "Up"]
    assert act["type"] == "function" and act["function"]["parameters"]["required"] == ["action"]
    assert [tool["function"]["name"] for tool in context_of("WebShop").tools.schemas] == ["search", "click"]
    assert context_of("WebShop").parse(call("search", words="a {thing} ]")).actions == ["search[a {thing} ]]"]
    assert Context(find_tag("FrozenLake", {})).tools is None


@pytest.mark.parametrize(
    ("answer", "actions", "is_valid"),
    [
        (call(action="Up"), ["Up"], True),
        (f"I go up. {call(action='Up')}{call(action='Left')}", ["Up", "Left"], True),
        ('{"name": "act", "parameters": {"action": "Up"}}', ["Up"], True),
        ('[{"function": {"name": "act", "arguments": "{\\"action\\": \\"Up\\"}"}}]', ["Up"], True),
        (f"<think>{call(action='Down')}</think>{call(action='Up')}", ["Up"], True),
        (f"<think>cut off {call(action='Down')}", [], False),
        (f"{call(action='Up')}{call('fly', action='Up')}", ["Up"], False),
        (call(), [], False),
        (call(action="Up", speed=3), [], False),
        (call(action=["Up"]), [], False),
        (call(action={"a": 1}), [], False),
        ('<tool_call>{"name": "act", "arguments": {"action": "Up"}}', ["Up"], True),
        ('<tool_call>{"name": "act", "argum', [], False),
        ('<tool_call>{"function": 3}</tool_call>', [], False),
        ('{"name": ["act"], "arguments": {}}', [], False),
        ("Up", [], False),
        ("[" * 100_000, [], False),
        ("", [], False),
    ],
)  # fmt: skip
def test_calls_are_read_and_what_is_no_legal_call_is_not_valid(answer, actions, is_valid):
    parsed = context_of().parse(answer)
    assert (parsed.actions, parsed.is_valid) == (actions, is_valid)


def test_an_answer_without_a_legal_call_is_an_invalid_turn_with_the_penalty():
    with (
        EnvStateManager.for_tag("FrozenLake", config=LAKE, use_multiprocessing=False) as manager,
        manager.episode(seed=3) as episode,
    ):
        step = episode.step("I would rather not.")
        assert step.invalid and episode.penalty < 0 and not episode.done
        assert "had no valid action" in episode.messages[-1]["content"]
        before = episode.penalty
        assert not episode.step(call(action="Up")).invalid and episode.penalty == before
        assert (
            not episode.step(call(action="nowhere")).reward and episode.penalty < before
        )  # a known tool, no known action


def test_prompts_leave_the_form_of_an_answer_to_the_tools():
    told = context_of().instruction
    assert "calling a tool" in told and "<answer>" not in told and "Actions:" not in told


def test_actions_without_a_text_are_shown_as_calls():
    shown = context_of("WebShop").shown({"actions": ["search[red shoes]"], "reward": 0.0})[0]
    assert context_of("WebShop").parse(shown).actions == ["search[red shoes]"] and '"words": "red shoes"' in shown


def with_tools(messages, asks, tools):
    listed = f"<tools>{json.dumps(tools)}</tools>" if tools else ""
    return listed + chatml(messages, asks)


class ToolTokenizer(CharTokenizer):
    def apply_chat_template(self, conversation, tokenize=True, add_generation_prompt=False, tools=None):
        return with_tools(conversation, add_generation_prompt, tools)


def history(*answers, **more):
    first = [
        {"state": "P", "actions_left": 9, "actions": ["Up"], "reward": 1.0, "llm_raw_response": a, **more}
        for a in answers
    ]
    return {"penalty": 0.0, "history": [*first, {"state": "G", "actions_left": 8}]}


def test_templates_are_given_the_tools_and_the_mask_holds_the_calls_as_written():
    context, tokenizer, answer = context_of(), ToolTokenizer(), f"Up it is. {call(action='Up')}"
    tokens = tokenize(context, history(answer, answer), tokenizer)
    text = tokenizer.decode(tokens.input_ids, False, False)
    assert text.startswith("<tools>[") and '"enum": ["Down"' in text
    masked = [token for token, is_written in zip(tokens.input_ids, tokens.loss_mask, strict=True) if is_written]
    assert tokenizer.decode(masked, False, False) == f"{answer}{END}" * 2
    asked = tokenizer.decode(prompt_ids(context, history(answer), tokenizer), False, False)
    assert asked.startswith("<tools>[")


def test_a_template_without_tools_is_refused():
    class Ignores(CharTokenizer):
        def apply_chat_template(self, conversation, tokenize=True, add_generation_prompt=False, tools=None):
            return chatml(conversation, add_generation_prompt)

    with pytest.raises(RolloutError, match="has no place for tools"):
        tokenize(context_of(), history(call(action="Up")), Ignores())


def test_calls_beside_the_text_go_back_as_calls_and_their_mask_is_refused():
    context = context_of()
    made = [{"name": "act", "arguments": '{"action": "Up"}'}, {"name": "act", "arguments": '{"action": "Down"}'}]
    raw = context.with_tool_calls("Hm.", [(each["name"], each["arguments"]) for each in made])
    assert context.parse(raw).actions == ["Up", "Down"] and context.parse(raw).is_valid
    cache = history(raw, calls=made)
    _, _, answer, first, second = context.messages(cache)
    assert answer["content"] == "Hm." and [each["function"]["name"] for each in answer["tool_calls"]] == ["act", "act"]
    assert [first["role"], second["role"]] == ["tool", "tool"] and "State:\nG" in second["content"]
    assert [first["tool_call_id"], second["tool_call_id"]] == [each["id"] for each in answer["tool_calls"]]
    with pytest.raises(RolloutError, match=r"taken tool calls out of the text.*--keep-tokens"):
        tokenize(context, cache, ToolTokenizer())


class Doors(gymnasium.Env):
    """An environment of a stranger, with tools of its own."""

    observation_space = action_space = gymnasium.spaces.Text(20)

    @staticmethod
    def tools(config):
        return [Tool("open", "Open a door.", {"number": {"type": "integer"}}, "open {number}")]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "two doors", {}

    def step(self, action):
        return "one door", float(action == "open 2"), True, False, {"success": action == "open 2"}


class BadTool(Doors):
    @staticmethod
    def tools(config):
        return [Tool("open", "Open a door.", {"number": {"type": "integer"}}, "open {door}")]


def test_an_environment_of_ones_own_may_declare_tools():
    name = f"{__name__}:Doors"
    with (
        EnvStateManager.for_tag(name, config=LAKE, use_multiprocessing=False) as manager,
        manager.episode(seed=0) as episode,
    ):
        episode.step(call("open", number=2))
        assert episode.reward == 1.0 and episode.history[0]["actions"] == ["open 2"]
    with pytest.raises(RolloutError, match=r"'open'.*each of them in braces"):
        context_of(f"{__name__}:BadTool")


def test_two_forms_of_an_answer_are_refused():
    with pytest.raises(Exception, match="two forms of an answer"):
        ContextConfig.parse({"tools": True, "prefill": True})
