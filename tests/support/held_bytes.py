"""The memory that an object holds, whatever it is made of: how a bound on memory is seen from outside."""

import gc
import sys
from types import FunctionType, MethodType, ModuleType

SHARED = (type, ModuleType, FunctionType, MethodType)
"""What objects refer to without holding it."""


def held_bytes(root: object) -> int:
    """The bytes of an object and of everything that it refers to, arrays included."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, SHARED):
            continue
        seen[id(one)] = one
        waiting += gc.get_referents(one)
    return sum(map(sys.getsizeof, seen.values()))
