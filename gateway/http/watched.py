"""What a plan, or a chain of filters, asks of a request's headers: an answer hangs on nothing else of them."""

from typing import Any

from gateway.http.headers import RequestHeaders


class Watched:
    """Stands in for a header block while a plan is walked, and remembers which headers were asked for.

    `whole`: it was looked at in other ways too, so that the answer may hang on anything in it.
    """

    def __init__(self, block: RequestHeaders) -> None:
        self.block = block
        self.names: list[bytes] = []
        self.values: list[bytes | None] = []
        self.whole = False

    def get(self, lower: bytes) -> bytes | None:
        """As the block's."""
        value = self.block.get(lower)
        self.names.append(lower)
        self.values.append(value)
        return value

    def __getattr__(self, name: str) -> Any:
        self.whole = True
        return getattr(self.block, name)
