"""Many sessions while workers are killed and connections are lost: no place is lost, no action executed twice."""

import asyncio
import os
import random

import aiohttp
import pytest

from chaos.leftovers import descendants
from integrations.openenv.serving import COUNTING, Client, Serving, connected, until
from rollout_helpers import kill
from villain_envs import Counting, CountingConfig

AT_ONCE = 24
STEPS = 3


def expected(seed):
    env = Counting(CountingConfig())
    env.reset(seed=seed)
    return [env.render()] + [env.step("a")[0] for _ in range(STEPS)]


async def request(url, http, name, luck, kind, data, client):
    """A request that is sent again over a new connection as often as the old one is lost; the connection that is left."""
    while True:
        await client.send(kind, data)
        if luck.random() > 0.15:
            return await client.receive(), client
        client.drop()
        client = await connect(url, http, name)


async def connect(url, http, name):
    return Client(http, await http.ws_connect(f"{url}/ws", headers={"X-Session-Id": name}))


async def one(url, http, seed, wrong):
    luck, name = random.Random(seed), f"session-{seed}"
    if seed % 10 == 0:  # a client that begins an episode, sends an action, and is never seen again
        async with connected(url, http) as client:
            await client.ask("reset", {"seed": seed})
            await client.send("step", {"action": "a"})
            client.drop()
        return
    client = await connect(url, http, name)
    seen = []
    for turn in range(STEPS + 1):
        data = {"seed": seed} if turn == 0 else {"action": "a", "metadata": {"request_id": f"{seed}-{turn}"}}
        answer, client = await request(url, http, name, luck, "reset" if turn == 0 else "step", data, client)
        seen.append(answer["data"].get("observation", answer["data"]).get("text", answer["data"]))
    if seen != expected(seed):
        wrong.append((seed, seen, expected(seed)))
    if seed % 3:
        await client.send("close")
    await client.socket.close()


async def storm(serving, sessions, kills):
    wrong, seeds, luck, killed = [], iter(range(sessions)), random.Random(0), set()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def place():
            for seed in seeds:
                await one(serving.url, http, seed, wrong)

        async def strike():
            for number in range(kills):
                at = (number + 1) * sessions * STEPS // (kills + 2)
                await until(lambda at=at: serving.server.turns >= at and serving.manager.worker_pids, 120)
                pid = luck.choice(serving.manager.worker_pids)
                kill(pid)
                killed.add(pid)

        async with asyncio.timeout(100 + sessions / 20):
            await asyncio.gather(strike(), *(place() for _ in range(AT_ONCE)))
        await until(lambda: not len(serving.server.sessions), 30)
    return wrong, killed


def play(sessions, kills):
    before = set(descendants(os.getpid()))
    # more than are played at once: clients with a name that are gone keep their place for the time of grace
    with Serving(["Counting"], COUNTING, True, max_sessions=8 * AT_ONCE, grace=0.5) as serving:
        wrong, killed = serving.ask_long(storm(serving, sessions, kills))
        counts = serving.server.sessions.counts
        assert not wrong[:3]
        assert serving.manager.episodes_under_way == 0
        assert counts["begun"] == sum(counts[how] for how in ("closed", "idle", "lost", "stopped"))
        assert counts["came back"] > sessions / 10  # connections were lost
        assert len(serving.manager.worker_pids) <= 2
        assert not serving.server.refusals
        assert len(killed) > kills / 2  # different ones: those that were killed were replaced
    left = set(descendants(os.getpid())) - before
    assert len(left) <= 1  # the fork server, if this was its first manager,
    assert not any(descendants(pid) for pid in left)  # and none of its children


def test_sessions_survive_killed_workers_and_lost_connections():
    play(sessions=200, kills=3)


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_ten_thousand_sessions_survive():
    play(sessions=10_000, kills=100)
