"""Wires the parts of the service into one Flask application; holds no logic of its own."""

import logging
import re
import secrets
import sys
import time
from urllib.parse import quote

from flask import Flask, Response, g, request, send_from_directory

from inference import client, engines, errors, parts
from inference.engines.contract import Engine
from inference.routes import health, speech
from inference.runner import Runner
from inference.settings import Settings
from inference.storage import Folder

log = logging.getLogger(__name__)

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
PAGE_POLICY = "default-src 'self'; media-src 'self' blob:; img-src 'self' data:; object-src 'none'; base-uri 'none'"


def create_app(settings: Settings, engine: Engine | None = None) -> Flask:
    """Make the application and start its runner, which loads the engine (or the given one) in the background.

    Call it in the process that serves, after any fork: a model's threads do not survive one.
    """
    app = Flask("inference", static_folder=settings.webui_dir / "static", static_url_path="/static")
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.config["MAX_FORM_MEMORY_SIZE"] = settings.max_body_bytes
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.json.ensure_ascii = False  # type: ignore[attr-defined]
    storage = Folder(settings.output_dir)
    storage.sweep()
    name = settings.engine_name
    runner = Runner(lambda: engine or engines.create(name), name, settings.device, settings.queue_size)
    app.extensions[parts.NAME] = parts.Service(settings, runner, storage)
    errors.install(app)
    app.before_request(_begin)
    app.after_request(_end)
    app.register_blueprint(speech.routes)
    app.register_blueprint(health.routes)
    app.add_url_rule("/", "page", _page)
    log.info("ENGINE=%s: engine %s on %s", settings.engine, name, settings.device)
    log.info("recordings are kept in %s; prompt_audio may name files in %s", settings.output_dir, settings.prompt_dir)
    runner.start()
    return app


def log_to_stderr() -> None:
    """Give the service's own log one line format, beside gunicorn's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s [%(levelname)s] %(name)s: %(message)s"))
    ours = logging.getLogger("inference")
    ours.handlers[:] = [handler]
    ours.setLevel(logging.INFO)
    ours.propagate = False


def _begin() -> None:
    given = request.headers.get("X-Request-Id", "")
    g.request_id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
    g.began = time.monotonic()
    client.limit_dawdling(request.environ, parts.service().settings.body_timeout)


def _end(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    response.headers["X-Content-Type-Options"] = "nosniff"
    if request.path not in ("/healthz", "/readyz"):
        took = time.monotonic() - g.began
        path = quote(request.path)  # a decoded line feed would write lines of the requester's own into the log
        log.info("%s %s %s %d %.3fs", g.request_id, request.method, path, response.status_code, took)
    return response


def _page() -> Response:
    response = send_from_directory(parts.service().settings.webui_dir, "index.html", max_age=0)
    response.headers["Content-Security-Policy"] = PAGE_POLICY
    response.headers["Cache-Control"] = "no-cache"
    return response
