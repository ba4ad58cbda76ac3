"""The entry for gunicorn: `inference.wsgi:app` is made once in each worker process, after the fork."""

from inference import settings
from inference.app import create_app, log_to_stderr

log_to_stderr()
app = create_app(settings.from_environment())
