"""What the operator can choose, read once from the environment and checked here, so that nothing else need doubt it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inference.engines import ENGINES

PROJECT = Path(__file__).resolve().parent.parent
PREFERRED = ("cosyvoice3", "embedded")  # what ENGINE=auto tries, best first


class SettingsError(Exception):
    """A setting that cannot work, told with its name, its value and the remedy; the service does not start."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All choices; sizes in bytes, times in seconds. Each is set by the environment variable in capitals."""

    engine: str = "auto"  # auto | a name in inference.engines.ENGINES
    device: str = "cpu"  # what the engine's model runs on: cpu, cuda, cuda:1 …
    output_dir: Path = field(default=PROJECT / "var" / "outputs")  # where recordings are kept
    prompt_dir: Path = field(default=PROJECT / "var" / "prompts")  # the only folder that prompt_audio paths may name
    webui_dir: Path = field(default=PROJECT / "webui")  # index.html and static/
    queue_size: int = 16  # requests that may wait for the model; one more is answered 429
    request_timeout: float = 600.0  # from being queued to the last sample
    body_timeout: float = 30.0  # between two pieces of a request's body
    max_prompt_bytes: int = 10 * 1024 * 1024
    max_text_length: int = 2000  # characters
    output_max_age: int = 3600  # how long a client may cache a recording

    @property
    def max_body_bytes(self) -> int:
        """The largest request body: a prompt in base64 (4 characters for 3 bytes) and a MiB for all the rest."""
        return self.max_prompt_bytes * 4 // 3 + 1024 * 1024

    @property
    def engine_name(self) -> str:
        """The engine that will run: the one named, or under ``auto`` the best there is."""
        if self.engine != "auto":
            return self.engine
        return next(name for name in PREFERRED if name in ENGINES)


def from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read and check all settings; an empty variable counts as absent. Raises SettingsError."""
    given = {name: value.strip() for name, value in environ.items() if value.strip()}
    default = Settings()
    settings = Settings(
        engine=_engine(given.get("ENGINE", default.engine)),
        device=given.get("DEVICE", default.device),
        output_dir=_folder(given, "OUTPUT_DIR", default.output_dir),
        prompt_dir=_folder(given, "PROMPT_DIR", default.prompt_dir),
        webui_dir=_folder(given, "WEBUI_DIR", default.webui_dir),
        queue_size=_integer(given, "QUEUE_SIZE", default.queue_size, 1, 1000),
        request_timeout=_integer(given, "REQUEST_TIMEOUT", int(default.request_timeout), 1, 86400),
        body_timeout=_integer(given, "BODY_TIMEOUT", int(default.body_timeout), 1, 3600),
        max_prompt_bytes=_integer(given, "MAX_PROMPT_BYTES", default.max_prompt_bytes, 100_000, 100 * 1024 * 1024),
        max_text_length=_integer(given, "MAX_TEXT_LENGTH", default.max_text_length, 1, 100_000),
        output_max_age=_integer(given, "OUTPUT_MAX_AGE", default.output_max_age, 0, 31_536_000),
    )
    if settings.prompt_dir == Path(settings.prompt_dir.anchor):
        raise SettingsError("PROMPT_DIR=/ would open every file of this machine to requests; name a folder of its own")
    return settings


def _engine(name: str) -> str:
    if name == "auto" or name in ENGINES:
        return name
    known = ", ".join(["auto", *ENGINES])
    raise SettingsError(f"ENGINE={name}: there is no such engine in this version; use one of {known}")


def _folder(given: Mapping[str, str], name: str, default: Path) -> Path:
    path = Path(given.get(name, str(default))).expanduser()
    # Relative names count from the project, not from wherever the service happened to be started.
    path = path if path.is_absolute() else PROJECT / path
    if path.exists() and not path.is_dir():
        raise SettingsError(f"{name}={path} is not a folder")
    return path


def _integer(given: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    word = given.get(name)
    if word is None:
        return default
    try:
        value = int(word)
    except ValueError:
        raise SettingsError(f"{name}={word} is not a whole number") from None
    if not low <= value <= high:
        raise SettingsError(f"{name}={value} is out of range; {low} to {high} is possible")
    return value
