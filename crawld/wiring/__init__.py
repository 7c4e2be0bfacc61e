"""The only builder of concrete things: reads the settings, puts the parts together, and reads settings again.

Front door: `assembly.py`.
"""

from crawld.wiring.assembly import Assembly, Tempo, build
from crawld.wiring.checks import check, digest_rules, set_up_logging, user_agent

__all__ = ["Assembly", "Tempo", "build", "check", "digest_rules", "set_up_logging", "user_agent"]
