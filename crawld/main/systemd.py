"""What systemd is told: ready, reloading, stopping, a status line, and that we are alive."""

import os
import socket

LONGEST_LINE = 400


class Notifier:
    """Talks to the service manager where there is one (NOTIFY_SOCKET), and to nobody otherwise."""

    def __init__(self, address: str | None = None) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET") if address is None else address

    def send(self, *lines: str) -> None:
        """Send state lines such as READY=1; a service manager that has gone away is no reason to stop."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            try:
                sock.connect(address)
                sock.sendall("\n".join(lines).encode())
            except OSError:
                self._address = None

    @staticmethod
    def watchdog_seconds() -> float | None:
        """How often the service manager wants to hear from us at the least, if it does."""
        usec, pid = os.environ.get("WATCHDOG_USEC"), os.environ.get("WATCHDOG_PID")
        if not usec or (pid and int(pid) != os.getpid()):
            return None
        return int(usec) / 1e6


def one_line(text: str) -> str:
    """A text of several lines as `systemctl status` can show it."""
    line = "; ".join(part.strip() for part in text.splitlines() if part.strip()).replace(":; ", ": ")
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"
