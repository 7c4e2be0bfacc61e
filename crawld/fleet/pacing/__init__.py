"""How fast a worker may send: known time, grants, slots and the door (docs/decisions/fleet.md)."""
