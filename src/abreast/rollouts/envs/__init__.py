"""One folder per environment; each exposes its `KIND`."""
