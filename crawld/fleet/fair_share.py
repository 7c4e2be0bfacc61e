"""How many shards a worker should hold, and what follows from that."""

from dataclasses import dataclass

from crawld.fleet.contracts import Beat


@dataclass(frozen=True, slots=True)
class Move:
    """What a worker is to do about its shards: claim at most so many free ones, or give so many away."""

    claim: int = 0
    give: int = 0


def move(beat: Beat, held: int, shards: int) -> Move:
    """Keep an equal part of all shards; a worker that drains keeps none."""
    fair = 0 if beat.draining else -(-shards // max(beat.workers, 1))
    if held > fair:
        return Move(give=held - fair)
    return Move(claim=min(fair - held, beat.free))
