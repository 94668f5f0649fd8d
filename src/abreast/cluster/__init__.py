"""Workers on the nodes of a Ray cluster, behind the same `Backend` as processes and threads (processes/backend.py).

     this program                            any node
    ┌──────────────┐ orders, what they need ┌────────────────────────────┐ shared memory, socket ┌────────┐
    │ RayChild     │───────────────────────▶│ Host, an actor of Ray's:    │─────────────────────▶│ worker │
    │ (backend.py) │◀───────────────────────│ one call after the other    │◀─────────────────────│ process│
    └──────────────┘ answers, what is new   └────────────────────────────┘                       └────────┘

A worker on another node is the same process as here. Its host starts it there, has a copy of the shared memory that it needs
(processes/shares.py), and passes on what the two sides say. Signs of life, blame, stacks and limits are therefore those of
processes; the loss of a host or of its node is the death of a worker like any other.
"""
