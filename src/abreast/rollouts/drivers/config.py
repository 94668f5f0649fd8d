"""Settings of a rollout from the command line: what is played, by which policy, and how a server is asked."""

from difflib import get_close_matches
from typing import Any, Self
from urllib.parse import urlsplit

import pydantic
from pydantic import Field

from abreast.settings import Section

_FORMS = ("http://", "https://")
OURS = frozenset(
    {"messages", "model", "stream", "stream_options", "n", "continue_final_message", "add_generation_prompt"}
)
"""Keys of a request that `sampling` may not hold."""
_KNOWN = """
    temperature top_p top_k min_p top_a tfs typical_p top_n_sigma seed stop stop_token_ids ignore_eos max_tokens
    max_completion_tokens min_tokens n_predict frequency_penalty presence_penalty repetition_penalty repeat_penalty
    repeat_last_n length_penalty no_repeat_ngram_size dry_multiplier dry_base dry_allowed_length xtc_probability
    xtc_threshold mirostat mirostat_tau mirostat_eta use_beam_search best_of logit_bias logprobs top_logprobs prompt_logprobs
    echo skip_special_tokens spaces_between_special_tokens include_stop_str_in_output chat_template chat_template_kwargs
    tools tool_choice parallel_tool_calls functions function_call response_format structured_outputs grammar json_schema
    regex ebnf guided_json guided_regex guided_choice guided_grammar reasoning_effort reasoning thinking enable_thinking
    separate_reasoning verbosity modalities audio prediction metadata store user safety_identifier prompt_cache_key
    cache_prompt cache_salt service_tier priority provider models route transforms web_search_options lora_path
    min_keep id_slot add_special_tokens documents mm_processor_kwargs return_token_ids return_tokens_as_token_ids
    """
SAMPLING = frozenset(_KNOWN.split())
"""Keys that servers are known to take. Others are sent too, unless they look like one of these, misspelt."""


class ServerConfig(Section):
    """An OpenAI-compatible server (vLLM, SGLang, llama.cpp ...) and how it is asked."""

    base_url: str | None = None
    """Address of the server, up to and including /v1, say http://localhost:8000/v1."""
    model: str | None = None
    """Name of the model; null: the only one that the server has."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; null: no key is sent."""
    stream: bool = False
    """Whether answers are received piece by piece; they are used when they are complete."""
    in_flight: int = Field(64, ge=1, le=65_536)
    """Requests at the same time, at most."""
    retries: int = Field(6, ge=0, le=1000)
    """How often a request that failed is sent again, after 0.5, 1, 2 ... 30 s, or what the server asks for."""
    request_timeout: float = Field(300.0, gt=0)
    """Seconds for one request, from sending it to the end of its answer."""
    price_in: float | None = Field(None, ge=0)
    """Price of a million prompt tokens."""
    price_out: float | None = Field(None, ge=0)
    """Price of a million tokens of answers."""
    keep_tokens: bool = False
    """Whether the server is asked for the token ids and log-probabilities of each answer (logprobs, return_token_ids), to
    keep them with its turn: trainers need them. What it does not give is null, and the log says so once."""
    sampling: dict[str, Any] = Field(default_factory=dict)
    """What else is sent with each request: temperature, max_tokens, top_p, seed ..."""

    @pydantic.model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if self.base_url is not None and not _is_address(self.base_url):
            raise ValueError(f"base_url is {self.base_url!r}: expected an address such as http://localhost:8000/v1.")
        taken = sorted(OURS & self.sampling.keys())
        if taken:
            raise ValueError(f"sampling has {', '.join(taken)}: that is set by abreast, leave it out.")
        if {"max_tokens", "max_completion_tokens"} <= self.sampling.keys():
            raise ValueError("sampling has max_tokens and max_completion_tokens: give the one that the server knows.")
        for key in self.sampling.keys() - SAMPLING:
            close = get_close_matches(key.casefold(), SAMPLING, n=1, cutoff=0.8)
            if close:
                raise ValueError(f"sampling has {key}, which no server knows: did you mean {close[0]!r}?")
        return self


def _is_address(url: str) -> bool:
    """Whether paths can be appended to it, and it names a host."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and "?" not in url and "#" not in url and url.startswith(_FORMS)
    except ValueError:  # brackets or a port that are none
        return False


class PlayConfig(Section):
    """A rollout: what `--resume` needs beside the configuration of the environments."""

    tag: str
    """What is played: a tag or an environment type."""
    more_tags: list[str] = Field(default_factory=list)
    """Further ones; groups take turns."""
    policy: str = "random"
    """Who plays: random, solver, openai, human, replay, MODULE:FUNCTION or FILE.py:FUNCTION."""
    replay: str | None = None
    """The trajectories that the policy replay plays again."""
    episodes: int = Field(64, ge=1)
    """Episodes in all."""
    group_size: int = Field(1, ge=1)
    """Episodes that share a seed."""
    slots: int | None = Field(None, ge=1, le=65_536)
    """Episodes that are played at the same time, at most; null: 256, with the policy openai as many as in_flight."""
    time_limit: float | None = Field(None, gt=0)
    """Seconds after which the rollout stops, and keeps what is finished."""
    server: ServerConfig = Field(default_factory=ServerConfig)
    """The server of the policy openai."""

    @property
    def tags(self) -> list[str]:
        """All that are played."""
        return [self.tag, *self.more_tags]

    @pydantic.model_validator(mode="after")
    def _has_whole_groups(self) -> Self:
        if self.episodes % self.group_size:
            raise ValueError(
                f"--episodes {self.episodes} is not a multiple of --group-size {self.group_size}: make it one."
            )
        return self
