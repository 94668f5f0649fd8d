"""Before any test starts a process: what children of these tests would each import by themselves (seconds)."""

from abreast.processes.fork_server import FORK_SERVER

FORK_SERVER.preload += ["torch._dynamo", "strangers.cases"]  # the first, as soon as an optimiser of torch is made
