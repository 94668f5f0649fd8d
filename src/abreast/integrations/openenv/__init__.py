"""Environments of rollouts behind OpenEnv's protocol, for trainers that step them over a network.

    client ──WebSocket /ws, or HTTP──▶ server.py ──▶ sessions.py ──▶ EnvStateManager.episode ──▶ workers
                                       routes        who has which episode, limits, idle and lost clients

The package openenv is not needed. The other direction, an OpenEnv server as an environment of ours, is the type `openenv`
(`rollouts/envs/openenv`).
"""

from abreast.integrations.openenv.server import Server

__all__ = ["Server"]
