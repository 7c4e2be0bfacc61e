"""Rights that a worker gives up before it reads foreign bytes: files, sockets, processes, other processes' memory.

A parser that can be made to run an attacker's code runs it here, so here there must be nothing to take. Three layers,
each where the kernel has it: a seccomp filter that lets pass the few calls that computing needs and refuses all others;
Landlock, which takes away the file system and TCP; and what every Linux has: no core dumps, no tracing, no new
processes for a user who is not root, and an end with the process that forked it.
"""

import ctypes
import mmap
import os
import platform
import resource
import signal
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum


class Prctl(IntEnum):
    """Options of prctl(2), and the mode in which it takes a filter."""

    SET_PDEATHSIG = 1
    SET_DUMPABLE = 4
    SET_SECCOMP = 22
    SET_NO_NEW_PRIVS = 38
    SECCOMP_MODE_FILTER = 2


class Landlock(IntEnum):
    """System calls of Landlock, and the flag that asks for its version."""

    CREATE_RULESET = 444
    RESTRICT_SELF = 446
    CREATE_RULESET_VERSION = 1


class Bpf(IntEnum):
    """Instructions of classic BPF: load a word, jumps, return."""

    LD = 0x20
    JEQ = 0x15
    JGE = 0x35
    JSET = 0x45
    RET = 0x06


class SeccompData(IntEnum):
    """Offsets in struct seccomp_data, and the bit of calls of x32, which share the architecture of x86_64."""

    NUMBER = 0
    ARCHITECTURE = 4
    ARGUMENTS = 16
    X32 = 0x40000000


class SeccompVerdict(IntEnum):
    """Verdicts of a filter on a call."""

    KILL_PROCESS = 0x80000000
    ALLOW = 0x7FFF0000
    EPERM = 0x00050000 | 1


AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's names of architectures in a filter."""
ALLOWED = {
    "read": (0, 63), "write": (1, 64), "recvfrom": (45, 207), "sendto": (44, 206), "close": (3, 57),
    "futex": (202, 98), "munmap": (11, 215), "mremap": (25, 216), "brk": (12, 214), "madvise": (28, 233),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169), "getrusage": (98, 165),
    "setitimer": (38, 103), "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "sched_yield": (24, 124),
    "getrandom": (318, 278), "getpid": (39, 172), "gettid": (186, 178), "fstat": (5, 80), "lseek": (8, 62),
    "rt_sigreturn": (15, 139), "sigaltstack": (131, 132), "restart_syscall": (219, 128), "exit": (60, 93),
    "exit_group": (231, 94),
}  # fmt: skip
"""The calls that computing needs, by their numbers on x86_64 and aarch64."""
NOT_EXECUTABLE = {"mmap": (9, 222), "mprotect": (10, 226)}
"""Allowed where the memory cannot be run as code."""
OWN_PROCESS = {"kill": (62, 129), "tgkill": (234, 131)}
"""Allowed to the worker itself: a broken library ends by these."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Layers of the kernel that confine a worker."""

    seccomp: bool = False
    landlock: bool = False

    def __str__(self) -> str:
        """For people, and for the message in which the template tells the pool."""
        names = ("seccomp", "landlock")
        return ",".join(name for name in names if getattr(self, name)) or "nothing"

    @classmethod
    def of(cls, text: str) -> "Confinement":
        """The layers that `str` wrote."""
        return cls("seccomp" in text.split(","), "landlock" in text.split(","))


_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, *given: int) -> None:
    numbers = [ctypes.c_ulong(number) for number in (*given, 0, 0, 0, 0)[:4]]
    if _libc.prctl(option, *numbers):
        raise OSError(ctypes.get_errno(), "prctl")


def give_up_rights(keep: int) -> None:
    """Keep no file but `keep`, and standard ones that lead nowhere; no dumps, no tracing, no children."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor != keep:
            with suppress(OSError):  # the one that listed them is closed
                os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    _prctl(Prctl.SET_PDEATHSIG, signal.SIGKILL)
    _prctl(Prctl.SET_DUMPABLE, 0)
    _prctl(Prctl.SET_NO_NEW_PRIVS, 1)


def confine(wanted: Confinement) -> Confinement:
    """Apply the layers that are wanted, for good; return those that the kernel took.

    Needs PR_SET_NO_NEW_PRIVS. The filter comes last: it refuses the calls that Landlock needs.
    """
    return Confinement(landlock=wanted.landlock and _landlock(), seccomp=wanted.seccomp and _seccomp())


def _landlock() -> bool:
    """Handle every right that this kernel knows of, and grant none; False where there is no Landlock."""
    version = _libc.syscall(Landlock.CREATE_RULESET, None, 0, Landlock.CREATE_RULESET_VERSION)
    if version < 1:
        return False
    files = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    attributes = struct.pack("=QQQ", files, 0b11, 0b11)  # files; TCP; sockets by abstract name, signals
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = _libc.syscall(Landlock.CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    if rules < 0:
        return False
    try:
        return not _libc.syscall(Landlock.RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _seccomp() -> bool:
    """Refuse every system call that computing does not need; False where there are no filters."""
    machine = platform.machine()
    if machine not in AUDIT or sys.maxsize < 2**32:
        return False
    program = _filter(machine, os.getpid())
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    try:
        _prctl(Prctl.SET_SECCOMP, Prctl.SECCOMP_MODE_FILTER, _address_of(head))
    except OSError:
        return False
    return True


def _address_of(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def _filter(machine: str, process: int) -> bytes:
    """The filter as a program of classic BPF. Each case ends with a verdict, so that no jump is long."""
    at = list(AUDIT).index(machine)
    steps = [
        (Bpf.LD, 0, 0, SeccompData.ARCHITECTURE),
        (Bpf.JEQ, 1, 0, AUDIT[machine]),
        (Bpf.RET, 0, 0, SeccompVerdict.KILL_PROCESS),
        (Bpf.LD, 0, 0, SeccompData.NUMBER),
        (Bpf.JGE, 0, 1, SeccompData.X32),
        (Bpf.RET, 0, 0, SeccompVerdict.EPERM),
    ]
    for numbers in ALLOWED.values():
        steps += [(Bpf.JEQ, 0, 1, numbers[at]), (Bpf.RET, 0, 0, SeccompVerdict.ALLOW)]
    for numbers in NOT_EXECUTABLE.values():
        steps += [
            (Bpf.JEQ, 0, 4, numbers[at]),
            (Bpf.LD, 0, 0, SeccompData.ARGUMENTS + 2 * 8),
            (Bpf.JSET, 0, 1, mmap.PROT_EXEC),
            (Bpf.RET, 0, 0, SeccompVerdict.EPERM),
            (Bpf.RET, 0, 0, SeccompVerdict.ALLOW),
        ]
    for numbers in OWN_PROCESS.values():
        steps += [
            (Bpf.JEQ, 0, 4, numbers[at]),
            (Bpf.LD, 0, 0, SeccompData.ARGUMENTS),
            (Bpf.JEQ, 0, 1, process),
            (Bpf.RET, 0, 0, SeccompVerdict.ALLOW),
            (Bpf.RET, 0, 0, SeccompVerdict.EPERM),
        ]
    steps.append((Bpf.RET, 0, 0, SeccompVerdict.EPERM))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
