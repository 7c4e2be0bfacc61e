"""Settings: read from YAML, checked, and compared. Only `wiring` and `cli` read them. Front door: `settings.py`."""

from crawld.config.settings import DURATIONS, POLICIES, STANDARD_INPUT, Settings, changes, load
from crawld.config.yaml_file import read_yaml

__all__ = ["DURATIONS", "POLICIES", "STANDARD_INPUT", "Settings", "changes", "load", "read_yaml"]
