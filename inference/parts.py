"""What routes find in the application that serves them: the settings, the runner and the storage."""

from dataclasses import dataclass

from flask import Flask, current_app

from inference.runner import Runner
from inference.settings import Settings
from inference.storage import Storage

NAME = "speech"  # among Flask's extensions


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of one application."""

    settings: Settings
    runner: Runner
    storage: Storage


def service(app: Flask | None = None) -> Service:
    """Return the parts of ``app``, or of the application that serves the present request."""
    found: Service = (app or current_app).extensions[NAME]
    return found
