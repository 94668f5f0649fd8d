"""Trainers of language models, against stand-ins: the same episodes and masks, seeds of groups, and what goes wrong."""

import asyncio
import importlib
import inspect
import logging
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest

from abreast.errors import RolloutError
from abreast.integrations import trainers as common
from abreast.integrations import trl
from abreast.rollouts import Context, EnvStateManager
from abreast.rollouts.context.tokens import tokenize
from abreast.rollouts.drivers.play import Order, play_episodes
from abreast.rollouts.drivers.policies.base import Answer, Policy
from rollouts.context.tokenizers import chatml

from .trainers import (
    ANSWERS,
    CONFIG,
    TOKENIZER,
    Player,
    answer_to,
    generate,
    install_verifiers,
    install_verl,
    logprob_of,
    registered,
    trl_trainer,
    verl_arguments,
)

PLAY = [[{"role": "user", "content": "Play."}]]


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The versions that were tried, whatever is installed."""
    monkeypatch.setattr(common, "version", lambda package: f"{common.TRIED[package]}.0")


@pytest.fixture
def made(request):
    """Makes rollout functions that are closed in the end."""
    kept = []

    def make(tag="FrozenLake", **more):
        kept.append(
            trl.rollout_func(tag, **{"config": CONFIG, "generate": generate, "use_multiprocessing": False, **more})
        )
        return kept[-1]

    yield make
    for each in kept:
        each.close()


@pytest.fixture
def verl_loop(monkeypatch):
    install_verl(monkeypatch)
    from abreast.integrations import verl

    yield verl.AbreastAgentLoop
    for episodes in common._shared.values():
        episodes.close()
    common._shared.clear()


class ByPrompt(Policy):
    """As `abreast rollout` asks a policy: with messages."""

    async def __call__(self, asked):
        answer = answer_to(chatml(asked.messages, True))
        return Answer(answer, finish_reason="length" if answer == "cut" else "stop")


def rolled_out(seeds):
    """Episodes of `abreast rollout`, tokenised."""
    played = {}
    with EnvStateManager.for_tag("FrozenLake", config=CONFIG, use_multiprocessing=False) as manager:
        orders = [Order(number, "FrozenLake", seed, 0) for number, seed in enumerate(seeds)]
        play_episodes(manager, ByPrompt(), lambda each: played.update({each.number: each}), orders)
    context = Context(played[0].tag)
    return [(tokenize(context, played[number].cache, TOKENIZER), played[number]) for number in range(len(seeds))]


def test_trl_verl_and_rollout_have_the_same_episodes_and_masks(made, verl_loop):
    out = made()(PLAY * 12, trl_trainer())
    seeds = out["episode_seed"]
    assert len(set(seeds)) == 6 and seeds[::2] == seeds[1::2]  # groups of two
    loops = [verl_loop(**verl_arguments(), tag="FrozenLake", rollouts=CONFIG) for _ in seeds]

    async def run():
        rows = ({"raw_prompt": PLAY[0], "extra_info": {"seed": seed}} for seed in seeds)
        return await asyncio.gather(
            *(loop.run({"temperature": 1.0}, **row) for loop, row in zip(loops, rows, strict=True))
        )

    turns = set()
    for number, (verl, (plain, played)) in enumerate(zip(asyncio.run(run()), rolled_out(seeds), strict=True)):
        end, first = plain.spans[-1][1], plain.spans[0][0]
        mask = plain.loss_mask[first:end]
        assert verl.prompt_ids == out["prompt_ids"][number] == plain.input_ids[:first]
        assert verl.response_ids == out["completion_ids"][number] == plain.input_ids[first:end]
        assert verl.response_mask == out["env_mask"][number] == mask
        assert verl.reward_score == out["score"][number] == pytest.approx(played.tally.reward + played.cache["penalty"])
        told = [
            logprob_of(token) if is_written else 0.0 for token, is_written in zip(verl.response_ids, mask, strict=True)
        ]
        assert verl.response_logprobs == out["logprobs"][number] == told
        assert verl.extra_fields["turn_scores"] == pytest.approx([plain.rewards[end - 1] for _, end in plain.spans])
        assert (verl.num_turns, out["num_turns"][number]) == (2 * len(plain.spans), len(plain.spans))
        turns.add(len(plain.spans))
    assert (
        len(turns) > 1
        and {answer for answer in ANSWERS if answer}
        <= {  # of different lengths, with every answer
            entry["llm_raw_response"] for _, played in rolled_out(seeds) for entry in played.cache["history"][:-1]
        }
    )


def test_workers_give_the_same_as_the_main_process(made):
    here, there = made(), made(use_multiprocessing=True, max_workers=2)
    assert here(PLAY * 6, trl_trainer()) == there(PLAY * 6, trl_trainer())


def test_a_group_shares_its_seed_over_processes_steps_and_evaluations(made):
    def seeds(play, prompts=PLAY * 4, **trainer):
        return play._seeds(prompts, trl_trainer(**trainer))

    play, again = made(), made()
    first = seeds(play)
    assert first[0] == first[1] != first[2] == first[3] and seeds(again) == first  # a run that is begun again
    assert not set(seeds(play)) & set(first)  # a second batch of the same step
    assert not set(seeds(play, step=1)) & set(first)
    halves = [seeds(made(), PLAY * 3, size=6, process=process) for process in (0, 1)]
    assert len({*halves[0], *halves[1]}) == 1  # one group on two processes
    assert seeds(play, training=False) == seeds(play, training=False, step=5)
    assert seeds(made(seed=1)) != first
    assert common.group_seed(0, "a") == 1517040217  # in every process, on every machine


def test_an_episode_ends_before_a_prompt_that_leaves_no_room(made):
    whole, short = made(), made(max_tokens=900)
    limits = [max(map(len, play(PLAY * 8, trl_trainer())["completion_ids"])) for play in (whole, short)]
    assert limits[1] < limits[0]
    with pytest.raises(RolloutError, match=r"more than 10 tokens.*no room"):
        made(max_tokens=40)(PLAY, trl_trainer())


def test_a_trainer_that_fails_or_disappears_leaves_no_episode_behind(made):
    def fails(prompts, trainer):
        raise ConnectionError("the engine is gone")

    play = made(generate=fails)
    with pytest.raises(ConnectionError) as raised:  # it keeps the frames, and so the episodes, alive
        play(PLAY * 4, trl_trainer())
    assert play._episodes.manager.episodes_under_way == 0 and raised.tb is not None


def test_a_loop_that_is_cancelled_leaves_no_episode_behind(verl_loop):
    asked = asyncio.Event()

    class Hangs:
        async def generate(self, **_):
            asked.set()
            await asyncio.Event().wait()

    async def run():
        loop = verl_loop(**verl_arguments(server=Hangs()), tag="FrozenLake", rollouts=CONFIG)
        task = asyncio.create_task(loop.run({}, raw_prompt=PLAY[0]))
        await asked.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    (episodes,) = common._shared.values()
    assert episodes.manager.episodes_under_way == 0


def test_verl_loops_share_a_seed_by_row_and_a_response_has_its_limit(verl_loop):
    def run(most=100_000, **row):
        loop = verl_loop(**verl_arguments(most=most), tag="FrozenLake", rollouts=CONFIG)
        return asyncio.run(loop.run({}, raw_prompt=PLAY[0], **row))

    one, same, other = run(index=4), run(index=4), run(index=5)
    assert one.extra_fields["episode_seed"] == same.extra_fields["episode_seed"] != other.extra_fields["episode_seed"]
    assert one.metrics.generate_sequences >= 0 and one.extra_fields["reward_extra_info"].keys() == {
        "success",
        "invalid_actions",
    }
    short = run(most=25, index=4)
    assert len(short.response_ids) == len(short.response_mask) == len(short.response_logprobs) <= 25
    assert (
        short.response_ids == one.response_ids[: len(short.response_ids)]
        and registered["abreast"].__name__ == "AbreastAgentLoop"
    )
    with pytest.raises(
        RolloutError, match=r"first prompt of FrozenLake has \d+ tokens, but rollout.prompt_length is 9: "
    ):
        asyncio.run(verl_loop(**verl_arguments(prompt_length=9), tag="FrozenLake").run({}, raw_prompt=PLAY[0]))
    assert not any(episodes.manager.episodes_under_way for episodes in common._shared.values())
    with pytest.raises(RolloutError, match="no tag is named"):
        asyncio.run(verl_loop(**verl_arguments()).run({}, raw_prompt=PLAY[0]))


# ---- the class for environment_factory


@pytest.fixture
def lake():
    return trl.environment_class("FrozenLake", config=CONFIG, group_size=2, use_multiprocessing=False)


def test_public_methods_are_tools_with_words_and_types(lake):
    public = [name for name, _ in inspect.getmembers(lake, inspect.isfunction) if not name.startswith("_")]
    assert public == ["act", "get_reward", "reset"]
    assert list(inspect.signature(lake().act).parameters) == ["action"]
    assert "Args:\n    action: The action to take." in lake.act.__doc__ and lake.__name__ == "FrozenLake"
    shop = trl.environment_class("WebShop", use_multiprocessing=False)
    assert list(inspect.signature(shop().search).parameters) == ["words"] and callable(shop.click)


def test_an_episode_is_played_by_calls_and_a_call_that_is_not_legal_costs_the_penalty(lake):
    env = lake()
    assert "State:" in env.reset(prompt=PLAY[0], seed=5) and env._episode.seed == 5
    assert (
        "Not executed: arguments.action is missing." in env.act(direction="Up") and env._episode.score < 0
    )  # TRL never sees an error
    while not env._episode.done:
        told = env.act(action="Up")
    assert told.endswith(trl.OVER) and env.get_reward() == env._episode.score
    with pytest.raises(RolloutError, match="over"):
        env.act(action="Up")
    env.reset(prompt=PLAY[0], seed=5)
    assert env.get_reward() < 0 and not env._episode._pool.count()  # no call at all: one invalid turn


def test_rows_without_a_seed_share_one_within_a_group(lake):
    envs = [lake() for _ in range(4)]

    def seeds(row):
        for env in envs:
            env.reset(**row)
        return [env._episode.seed for env in envs]

    first = seeds({"prompt": [{"role": "user", "content": ""}]})
    assert first[0] == first[1] != first[2] == first[3]
    assert not set(seeds({"prompt": [{"role": "user", "content": ""}]})) & set(first)  # the next batch
    by_row = trl.environment_class("FrozenLake", config=CONFIG, use_multiprocessing=False)()
    by_row.reset(prompt=PLAY[0])
    known = by_row._episode.seed
    by_row.reset(prompt=PLAY[0])
    assert by_row._episode.seed == known
    with pytest.raises(RolloutError, match="group_size"):
        by_row.reset(prompt=[{"role": "user", "content": ""}])


# ---- what is refused


def test_another_version_is_named(monkeypatch, caplog):
    monkeypatch.setattr(common, "version", lambda package: "1.2.3")
    with pytest.raises(RolloutError, match=r"^trl 1\.2\.3 is installed, but trl 1\.16 was tried: upgrade it\.$"):
        trl.rollout_func("FrozenLake")
    monkeypatch.setattr(common, "version", lambda package: "2.0.0.dev1")
    with caplog.at_level(logging.WARNING, "abreast"):
        common.require("trl")
    assert "trl 2.0.0.dev1 is installed, which was not tried: trl 1.16 was." in caplog.text

    def missing(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(common, "version", missing)
    with pytest.raises(RolloutError, match=r'not installed: pip install "abreast\[verl\]"\.'):
        common.require("verl")


def test_a_tag_that_does_not_exist_is_named():
    for make in (trl.rollout_func, trl.environment_class):
        with pytest.raises(RolloutError, match="there is no tag or environment type 'FrozenLaek'"):
            make("FrozenLaek")


@pytest.mark.parametrize(
    ("tag", "config"), [("FrozenLake", {"preset": "ragen"}), ("VisualSokoban", {"context": {"enable_think": False}})]
)
def test_verifiers_is_sent_the_messages_as_they_are(tag, config, monkeypatch):
    """Also those of a prefilled answer, and pictures."""
    install_verifiers(monkeypatch)
    ours = importlib.import_module("abreast.integrations.verifiers")
    player, answers = Player(*ANSWERS[:2]), ANSWERS[:2]
    task = SimpleNamespace(data=SimpleNamespace(tag=tag, seed=3, rollouts=config))
    asyncio.run(ours.AbreastEnv().run(task, SimpleNamespace(player=player)))
    with (
        EnvStateManager.for_tag(tag, config=config, use_multiprocessing=False) as manager,
        manager.episode(seed=3) as episode,
    ):
        context, known = Context(episode.tag), []
        for sent, answer in zip(player.sent, [*answers, None], strict=True):
            if context.opening:
                assert sent[-1] == {"role": "assistant", "content": context.opening}
            assert [*known, *sent] == [each for each in episode.messages if each["role"] != "system"]
            assert sent[0]["role"] == "user" and (
                tag != "VisualSokoban" or sent[0]["content"][1]["type"] == "image_url"
            )
            if answer is not None and not episode.done:
                episode.step(answer)
                known = [each for each in context.conversation(episode.cache) if each["role"] != "system"]
    assert len(player.sent) == 3
