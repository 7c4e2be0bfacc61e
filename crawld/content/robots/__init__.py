"""robots.txt: parsed, packed, and matched against URLs. Front door: `parser.py`."""
