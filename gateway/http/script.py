"""A content handler's commands, run one after the other, as the stream of what they give out (the echo module).

Subrequests that are not waited for run beside the commands that follow; all output keeps the order of the commands.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gateway.http.message import Redirect, Request, Stream
from gateway.http.streams import Joined

Pause = Callable[[], Awaitable[None]]  # what is waited for, once all output so far has been given out
Command = Callable[["Script"], Pause | None]
IT = "echo it"  # the note that holds the present item of a loop
_PIECE = 65536  # bytes of a repeated text given out at a time


class Moved(Exception):  # noqa: N818  # not an error: the commands lead to another location
    """The request goes on elsewhere."""

    def __init__(self, redirect: Redirect) -> None:
        super().__init__(redirect)
        self.redirect = redirect


class Script:
    """A run of `commands`: await `begin` before there is a head, then read it as the body's stream."""

    __slots__ = ("at", "choices", "commands", "loop", "out", "pause", "request", "shown")

    def __init__(self, request: Request, commands: Sequence[Command]) -> None:
        self.request, self.commands = request, commands
        self.at = 0  # the next command
        self.pause: Pause | None = None
        self.out = Joined()
        self.shown = False  # a command has given out something, be it nothing: the head goes before that
        # of the present loop
        self.loop = -1  # its first command
        self.choices: list[bytes] = []  # what it has still to go through, the present one first

    async def begin(self) -> None:
        """Run up to the first output. What commands raise later on ends the body, if it can be helped."""
        while self.at < len(self.commands) and not self.shown:
            pause = self._step()
            if self.shown:
                self.pause = pause
            elif pause is not None:
                await pause()

    def ready(self) -> bytes | None:
        """Run on: the whole output, if no command has to wait; None if one has, then it is to be read."""
        while self.pause is None and self.at < len(self.commands):
            self.pause = self._step()
        items = self.out.items
        if self.pause is not None or not all(isinstance(item, bytes) for item in items):
            return None
        return b"".join(items)  # type: ignore[arg-type]

    def _step(self) -> Pause | None:
        command = self.commands[self.at]
        self.at += 1
        return command(self)

    async def read(self) -> bytes:
        """The next output."""
        while True:
            if self.pause is None and self.at < len(self.commands):
                self.pause = self._step()
                continue
            data = await self.out.read()
            if data:
                return data
            pause, self.pause = self.pause, None
            if pause is None:
                return b""
            await pause()

    def close(self) -> None:
        """The reader has left."""
        self.at, self.pause = len(self.commands), None
        self.out.close()

    # --- what commands do

    def say(self, text: bytes | Stream) -> None:
        """Give out a text, or what a stream gives."""
        self.shown = True
        if text:
            self.out.add(text)

    def begin_loop(self, choices: list[bytes], end: int) -> None:
        """Run the commands from here on for each choice; without one go on at `end`."""
        if choices:
            self.loop, self.choices = self.at, choices
            self.request.keep(IT, choices[0])
        else:
            self.at = end

    def end_loop(self) -> None:
        """Run them again for the next choice, or go on."""
        self.choices = self.choices[1:]
        if self.choices:
            self.at = self.loop
            self.request.keep(IT, self.choices[0])
        else:
            self.loop = -1
            self.request.keep(IT, None)


class Repeated:
    """A text many times over; never all of it in memory at once."""

    __slots__ = ("count", "text")

    def __init__(self, text: bytes, count: int) -> None:
        self.text, self.count = text, count

    async def read(self) -> bytes:
        """The next piece."""
        times = min(self.count, max(_PIECE // len(self.text), 1))
        self.count -= times
        return self.text * times

    def close(self) -> None:
        """The reader has left."""
        self.count = 0


def sleeping(seconds: float) -> Pause:
    """Until some seconds from now have passed."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds

    async def rest() -> None:
        await asyncio.sleep(max(end - loop.time(), 0))

    return rest


async def nothing() -> None:
    """Only until what was said has been given out."""
