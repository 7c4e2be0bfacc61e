"""The only builder of concrete things: reads the settings, puts the parts together, and reads settings again.

Front door: `assembly.py`.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crawld.wiring.assembly import Assembly, Tempo, build
    from crawld.wiring.checks import check, digest_rules, set_up_logging, user_agent

__all__ = ["Assembly", "Tempo", "build", "check", "digest_rules", "set_up_logging", "user_agent"]

_ASSEMBLED = frozenset({"Assembly", "Tempo", "build"})


def __getattr__(name: str) -> object:
    """Import when asked for: commands that only need a part of the settings need not wait for the daemon's parts."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "assembly" if name in _ASSEMBLED else "checks"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
