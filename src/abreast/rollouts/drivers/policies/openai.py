"""The policy `openai`: a language model behind any OpenAI-compatible server."""

from abreast.rollouts.drivers.client.chat import ChatClient
from abreast.rollouts.drivers.client.retries import Backoff
from abreast.rollouts.drivers.config import ServerConfig
from abreast.rollouts.drivers.policies.base import Answer, Asked, SimplePolicy


class OpenAIPolicy(SimplePolicy):
    """Sends the messages of each turn to the server; the answer is the text as it is."""

    def __init__(self, config: ServerConfig, backoff: Backoff | None = None) -> None:
        self._client = ChatClient(config, backoff)
        self.counts = self._client.counts

    @property
    def model(self) -> str | None:
        """The name of the model; if none was given, it is known after `start`."""
        return self._client.model

    async def __call__(self, asked: Asked) -> Answer:
        return await self._client.ask(asked.messages)

    async def start(self) -> None:
        """Look whether the server is there."""
        await self._client.start()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
