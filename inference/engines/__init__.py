"""The engines by name; each is imported on first use, so that a process without one never pays for its libraries."""

from importlib import import_module

from inference.engines.contract import Engine

ENGINES = {
    "embedded": "inference.engines.embedded:EmbeddedEngine",
}


def create(name: str) -> Engine:
    """Make the engine called ``name``, not yet loaded; KeyError where there is none of that name."""
    package, _, attribute = ENGINES[name].partition(":")
    engine: Engine = getattr(import_module(package), attribute)()
    return engine
