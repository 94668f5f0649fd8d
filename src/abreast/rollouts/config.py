"""Settings of environments and of the manager that steps them."""

from abreast.settings import Section


class EnvConfig(Section):
    """Settings every environment has; each environment's own class adds to them."""

    action_lookup: dict[int, str] | None = None
    """Actions by number. With it, the manager turns names into numbers and drops others; without, text goes through."""
