"""Environments behind an OpenEnv server."""

from abreast.rollouts.envs.openenv.config import RemoteConfig
from abreast.rollouts.envs.openenv.env import RemoteEnv
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="openenv",
    summary="An environment behind an OpenEnv server, by its address: openenv:http://HOST:PORT.",
    env=RemoteEnv,
    config=RemoteConfig,
    instruction="You play an environment, one action after the other. Make the sum of your rewards as high as you can.",
    address_setting="base_url",
)
