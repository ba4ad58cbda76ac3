"""Which workers live: each holds a lock on one byte of a common file, the byte of its running number.

The kernel frees the lock when the process ends, however it ends. A process id could not tell: another process may have
it by then.
"""

import fcntl
import os


class Presence:
    """This worker's mark; `number` is its running number, never used twice by one master."""

    __slots__ = ("fd", "number")

    def __init__(self, path: str, number: int) -> None:
        """Raises OSError."""
        self.number = number
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 1, number)

    def alive(self, number: int) -> bool:
        """Whether the worker of this number lives."""
        if number == self.number:
            return True
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            return True
        fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, number)
        return False
