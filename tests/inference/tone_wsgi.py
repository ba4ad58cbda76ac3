"""The tone engine under a real gunicorn; its events are files in TONE_FOLDER, for a test outside to see and set."""

import os
import threading
from pathlib import Path

from inference.app import create_app, log_to_stderr
from inference.settings import from_environment
from tests.inference.conftest import ToneEngine


class FileEvent(threading.Event):
    """An event that is set by the existence of a file."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.path = Path(os.environ["TONE_FOLDER"]) / name

    def set(self) -> None:
        self.path.touch()
        super().set()

    def wait(self, timeout: float | None = None) -> bool:
        looks = int((timeout or 60) * 50)
        return any(self.path.exists() or super(FileEvent, self).wait(0.02) for _ in range(looks))


engine = ToneEngine()
for event in ("stopped", "holding", "release", "closed"):
    setattr(engine, event, FileEvent(event))
log_to_stderr()
app = create_app(from_environment(), engine)
