"""Every refusal of the service is one exception and leaves as one JSON shape: error with code, message and field."""

import logging
from http import HTTPStatus

from flask import Flask, Response, g, jsonify
from werkzeug.exceptions import ClientDisconnected, HTTPException

log = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST = 499  # nginx's status for a client that left; only the log ever sees it

CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "too_large",
    415: "unsupported_media_type",
    416: "range_not_satisfiable",
}


class ServiceError(Exception):
    """A request that cannot be served: an HTTP status, a code for programs, words for people, the field at fault.

    ``retry_after``: seconds after which the same request may succeed; 0 = not said.
    """

    def __init__(self, status: int, code: str, message: str, field: str = "", retry_after: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.retry_after = retry_after


def shape(code: str, message: str, field: str = "") -> dict[str, dict[str, str | None]]:
    """Return the one JSON shape of an error; ``field`` is null where no single field is at fault."""
    return {"error": {"code": code, "message": message, "field": field or None}}


def install(app: Flask) -> None:
    """Make every exception of ``app`` leave through the one handler below."""
    app.register_error_handler(Exception, answer)


def answer(error: Exception) -> Response:
    """Turn ``error`` into its response; what nobody foresaw is logged with its traceback and told as a plain 500."""
    if isinstance(error, ServiceError):
        response = jsonify(shape(error.code, error.message, error.field))
        response.status_code = error.status
        if error.retry_after:
            response.headers["Retry-After"] = str(error.retry_after)
    elif isinstance(error, ClientDisconnected | TimeoutError):
        # Flask takes the socket's time-out for an end; who really went away does not see the answer.
        response = jsonify(shape(CODES[408], "The request's body stopped arriving."))
        response.status_code = HTTPStatus.REQUEST_TIMEOUT
    elif isinstance(error, HTTPException):
        response = _http(error)
    else:
        log.error("request %s failed", g.get("request_id", "-"), exc_info=error)
        response = jsonify(shape("internal_error", "The service failed; its log says why under this X-Request-Id."))
        response.status_code = HTTPStatus.INTERNAL_SERVER_ERROR
    response.headers["Cache-Control"] = "no-store"
    return response


def _http(error: HTTPException) -> Response:
    status = error.code or 500
    message = error.description or HTTPStatus(status).phrase
    response = jsonify(shape(CODES.get(status, f"http_{status}"), message))
    response.status_code = status
    # The exception knows headers that its status obliges to: Allow of a 405, Content-Range of a 416, Location of a 308.
    for name, value in error.get_headers():
        if name.lower() not in {"content-type", "content-length"}:
            response.headers[name] = value
    return response
