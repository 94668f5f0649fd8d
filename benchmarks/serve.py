"""Turns per second of `abreast serve` over loopback, against the same episodes stepped in process, in one run.

python benchmarks/serve.py [--turns 4000] [--at-once 32] [--repeats 3] [TAG]

The limit is an echo: the same number of messages, of the same size, over the same sockets, without any environment.
"""

import argparse
import asyncio
import statistics
import time

import aiohttp
from aiohttp import web

from abreast import EnvStateManager
from abreast.integrations.openenv import Server

AIM = 0.5
"""Of the echo's rate: half of a turn's time may be ours."""


async def in_process(manager: EnvStateManager, tag: str, turns: int, at_once: int) -> float:
    """Turns per second of single episodes, at most `at_once` at the same time."""
    left = iter(range(turns))

    async def place(seed: int) -> None:
        while True:
            async with manager.episode(tag, seed=seed) as episode:
                while not episode.done:
                    if next(left, None) is None:
                        return
                    await episode.step(["Down"])

    started = time.perf_counter()
    await asyncio.gather(*(place(seed) for seed in range(at_once)))
    return turns / (time.perf_counter() - started)


async def over_sockets(url: str, turns: int, at_once: int) -> float:
    """The same by messages."""
    left = iter(range(turns))

    async def place(http: aiohttp.ClientSession, seed: int) -> None:
        async with http.ws_connect(f"{url}/ws") as socket:
            while True:
                await socket.send_json({"type": "reset", "data": {"seed": seed}})
                answer = (await socket.receive_json())["data"]
                while not answer["done"]:
                    if next(left, None) is None:
                        return
                    await socket.send_json({"type": "step", "data": {"action": "Down"}})
                    answer = (await socket.receive_json())["data"]

    started = time.perf_counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        await asyncio.gather(*(place(http, seed) for seed in range(at_once)))
    return turns / (time.perf_counter() - started)


async def echo(request: web.Request) -> web.StreamResponse:
    """Answers each message with 600 characters, about what an observation has."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for _ in socket:
        await socket.send_json({"type": "observation", "data": {"done": False, "text": "." * 600}})
    return socket


async def measure(tag: str, turns: int, at_once: int, repeats: int) -> None:
    app = web.Application()
    app.router.add_get("/ws", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    echoing = f"http://127.0.0.1:{runner.addresses[0][1]}"
    rates = list[tuple[float, float, float]]()
    with EnvStateManager.for_tag(tag, concurrency=at_once) as manager:
        await in_process(manager, tag, max(turns // 10, 1), at_once)  # `auto` has measured
        async with Server(manager, port=0, max_sessions=at_once) as server:
            for _ in range(repeats):  # by turns: others may use the machine
                here = await in_process(manager, tag, turns, at_once)
                served = await over_sockets(server.url, turns, at_once)
                rates.append((here, served, await over_sockets(echoing, turns, at_once)))
    await runner.cleanup()
    here, served, limit = (statistics.median(each) for each in zip(*rates, strict=True))
    of_here, of_limit, of_both = (
        statistics.median(each)
        for each in zip(*((s / h, s / e, s * (1 / h + 1 / e)) for h, s, e in rates), strict=True)
    )
    print(f"{tag}, {at_once} at once, client and server in one process, turns/s, median of {repeats}")
    print(f"  in process  {here:,.0f}")
    print(f"  served      {served:,.0f}  ({of_here:.2f} of in process, {of_limit:.2f} of the limit; aim {AIM})")
    print(f"  limit       {limit:,.0f}  (an echo over the same sockets)")
    print(f"  an echo and a turn in process, one after the other, take {of_both:.2f} of the time of a served turn")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tag", nargs="?", default="FrozenLake")
    parser.add_argument("--turns", type=int, default=4000)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(measure(given.tag, given.turns, given.at_once, given.repeats))
