"""How gunicorn runs the speech service: one process that owns the model, and threads that wait for it.

The address is SPEECH_BIND (default 127.0.0.1:8000); everything else about the service is in inference/settings.py.
"""

import os
import sys

from inference import parts, settings
from inference.runner import State

try:
    _settings = settings.from_environment()
except settings.SettingsError as error:
    # Said before any worker exists, so that the reason is one line and not a traceback of every worker.
    sys.exit(f"speech service: {error}")

wsgi_app = "inference.wsgi:app"
bind = os.environ.get("SPEECH_BIND", "127.0.0.1:8000")

# One process = one copy of the model. Never preload: the model is loaded by the worker, after the fork.
workers = 1
worker_class = "gthread"
preload_app = False
# Everyone who may wait in the queue holds a thread; the others keep pages, health checks and 429s answered at once.
threads = _settings.queue_size + 24

# The worker's main loop must give a sign of life; requests are limited by REQUEST_TIMEOUT, not by this. Building a
# model's weights may hold the interpreter for a while on a slow machine.
timeout = 180
graceful_timeout = 30
keepalive = 75  # longer than a gateway keeps its idle upstream connections, so that it is the gateway that closes them

limit_request_line = 8190
limit_request_fields = 100
limit_request_field_size = 8190

accesslog = None  # the service logs each request itself, with its X-Request-Id
errorlog = "-"
loglevel = "info"
proc_name = "speech"
control_socket_disable = True


def worker_exit(server, worker):
    """Let the engine go before the process ends."""
    app = getattr(worker, "wsgi", None)
    if app is None:
        return
    runner = parts.service(app).runner
    # Loading cannot be interrupted and is not worth waiting for.
    patience = 0.0 if runner.state is State.LOADING else 10.0
    if not runner.close(patience):
        # A thread still inside a model library would make the interpreter's own way out abort the process.
        os._exit(0)
