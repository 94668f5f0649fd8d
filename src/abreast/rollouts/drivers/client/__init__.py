"""A client of OpenAI-compatible servers: one request, its answer, and what is done when there is none."""
