"""Stand-ins for trainers, with the parts of their interfaces that are used here; and a model that answers by its prompt."""

import sys
import types
import zlib
from contextlib import asynccontextmanager
from types import SimpleNamespace

from pydantic import BaseModel

from rollouts.context.tokenizers import END, CharTokenizer

CONFIG = {"context": {"enable_think": False}}
ANSWERS = ["<answer>Up</answer>", "<answer>Down || Left</answer>", "what?", "<answer>Right</answer>", "", "cut"]
TOKENIZER = CharTokenizer()


def answer_to(prompt):
    """The text of an answer, which follows from the text of the prompt."""
    return ANSWERS[zlib.crc32(prompt.encode()) % len(ANSWERS)]


def ids_to(prompt_ids):
    """The same as tokens; one of the answers is cut off before its end."""
    answer = answer_to(TOKENIZER.decode(prompt_ids, False, False))
    return TOKENIZER.encode(answer + END * (answer != "cut"), add_special_tokens=False)


def logprob_of(token):
    return -(1 + token % 7) / 8


def generate(prompts, trainer=None):
    answers = [ids_to(ids) for ids in prompts]
    return answers, [[logprob_of(token) for token in ids] for ids in answers]


def trl_trainer(step=0, training=True, process=0, size=2):
    return SimpleNamespace(
        processing_class=TOKENIZER, num_generations=size, num_generations_eval=size, max_completion_length=30,
        model=SimpleNamespace(training=training, config=SimpleNamespace()), state=SimpleNamespace(global_step=step),
        accelerator=SimpleNamespace(process_index=process),
    )  # fmt: skip


class AgentLoopMetrics(BaseModel):
    generate_sequences: float = 0.0
    tool_calls: float = 0.0
    compute_score: float = 0.0
    num_preempted: int = -1


class AgentLoopOutput(BaseModel):
    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    response_logprobs: list[float] | None = None
    reward_score: float | None = None
    num_turns: int = 0
    metrics: AgentLoopMetrics
    extra_fields: dict = {}


class AgentLoopBase:
    def __init__(
        self, trainer_config, server_manager, tokenizer, processor, dataset_cls, data_config, hf_model_type=None
    ):
        self.config = trainer_config.config
        self.rollout_config = self.config.actor_rollout_ref.rollout
        self.server_manager, self.tokenizer = server_manager, tokenizer
        self.apply_chat_template_kwargs = data_config.config.get("apply_chat_template_kwargs", {})


registered = {}


def register(name):
    return lambda loop: registered.setdefault(name, loop)


def install_verl(monkeypatch):
    """A package with the interface of verl 0.9."""
    parts = ["verl", "verl.experimental", "verl.experimental.agent_loop", "verl.experimental.agent_loop.agent_loop"]
    modules = [types.ModuleType(name) for name in parts]
    modules[-1].AgentLoopBase, modules[-1].AgentLoopOutput, modules[-1].register = (
        AgentLoopBase,
        AgentLoopOutput,
        register,
    )
    for name, module in zip(parts, modules, strict=True):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "abreast.integrations.verl", raising=False)


def install_verifiers(monkeypatch):
    """A package with the interface of verifiers 0.4."""
    names = ("TasksetConfig", "TaskData", "State", "TaskConfig", "EnvConfig", "AgentConfig")
    held = {name: type(name, (BaseModel,), {}) for name in names}
    held["AgentConfig"] = type("AgentConfig", (BaseModel,), {"__annotations__": {"harness": dict}})
    held |= {
        name: type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)})
        for name in ("Task", "Taskset", "Env")
    }
    module = types.ModuleType("verifiers.v1")
    vars(module).update(held)
    package = types.ModuleType("verifiers")
    package.v1 = module
    monkeypatch.setitem(sys.modules, "verifiers", package)
    monkeypatch.setitem(sys.modules, "verifiers.v1", module)
    monkeypatch.delitem(sys.modules, "abreast.integrations.verifiers", raising=False)


class Player:
    """An agent of verifiers with a given answer to each turn; it keeps what it was sent."""

    def __init__(self, *answers):
        self.answers, self.sent = iter(answers), []
        self.trace = SimpleNamespace(info={}, record_reward=lambda *_: None, record_metric=lambda *_: None)

    @asynccontextmanager
    async def interaction(self, task):
        yield self

    async def turn(self, messages):
        self.sent.append(messages)
        answer = next(self.answers, None)
        return SimpleNamespace(last_reply=answer, terminated=answer is None)


class TokenServer:
    """verl's server manager."""

    async def generate(self, request_id, prompt_ids, sampling_params, **more):
        ids = ids_to(prompt_ids)
        return SimpleNamespace(token_ids=ids, log_probs=[logprob_of(token) for token in ids], num_preempted=None)


def verl_arguments(tokenizer=TOKENIZER, server=None, most=100_000, prompt_length=10_000):
    rollout = SimpleNamespace(response_length=most, prompt_length=prompt_length)
    config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=rollout))
    return {
        "trainer_config": SimpleNamespace(config=config), "server_manager": server or TokenServer(), "tokenizer": tokenizer,
        "processor": None, "dataset_cls": None, "data_config": SimpleNamespace(config={}),
    }  # fmt: skip
