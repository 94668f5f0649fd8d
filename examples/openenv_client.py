"""Play an environment of `abreast serve` with the client of OpenEnv, or with a plain WebSocket where it is not installed.

abreast serve FrozenLake --port 8000          # in one terminal
python examples/openenv_client.py             # in another; or give it another address
"""

import asyncio
import json
import sys
import uuid

try:
    from openenv.core.generic_client import GenericEnvClient
except ImportError:
    GenericEnvClient = None

ACTIONS = ("Down", "Right", "Down", "Right", "Right", "Down")


async def with_openenv(url: str) -> float:
    """The same name at every connect: after a lost connection, the client comes back to its session."""
    total = 0.0
    async with GenericEnvClient(base_url=url, headers={"X-Session-Id": uuid.uuid4().hex}) as env:
        result = await env.reset(seed=7)
        for action in ACTIONS:
            print(result.observation["text"], "", action, sep="\n")
            result = await env.step({"action": action})
            total += result.reward
            if result.done:
                break
    return total


async def without(url: str) -> float:
    """The protocol itself: JSON over a WebSocket."""
    import aiohttp

    total = 0.0
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{url}/ws") as socket:

        async def ask(kind: str, **data: object) -> dict:
            await socket.send_str(json.dumps({"type": kind, "data": data}))
            answer = json.loads(await socket.receive_str())
            if answer["type"] == "error":
                sys.exit(answer["data"]["message"])
            return answer["data"]

        result = await ask("reset", seed=7)
        for action in ACTIONS:
            print(result["observation"]["text"], "", action, sep="\n")
            result = await ask("step", action=action)
            total += result["reward"]
            if result["done"]:
                break
        await socket.send_str(json.dumps({"type": "close"}))
    return total


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    print("reward:", asyncio.run((with_openenv if GenericEnvClient else without)(address)))
