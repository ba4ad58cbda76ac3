"""Tells load balancers and people how the service is: alive (`/healthz`), and able to speak (`/readyz`)."""

from flask import Blueprint, Response, jsonify

from inference import parts
from inference.runner import State

routes = Blueprint("health", __name__)


@routes.get("/healthz")
def healthz() -> Response:
    """Answer 200 as long as the process serves requests at all."""
    return _fresh(jsonify(status="ok"))


@routes.get("/readyz")
def readyz() -> Response:
    """Answer 200 once the engine can speak, 503 with its state before and after."""
    status = parts.service().runner.status()
    response = _fresh(jsonify(status))
    if status["state"] != State.READY:
        response.status_code = 503
        response.headers["Retry-After"] = "2"
    return response


def _fresh(response: Response) -> Response:
    response.headers["Cache-Control"] = "no-store"
    return response
