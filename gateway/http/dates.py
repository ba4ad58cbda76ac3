"""HTTP dates (RFC 9110 section 5.6.7) and the clock line of the present second."""

import time

_DAYS = (b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun")
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_last: tuple[int, bytes] = (0, b"")


def http_date(seconds: float) -> bytes:
    """An IMF-fixdate, from seconds since the epoch."""
    year, month, day, hour, minute, second, weekday, _, _ = time.gmtime(seconds)
    return b"%s, %02d %s %d %02d:%02d:%02d GMT" % (_DAYS[weekday], day, _MONTHS[month - 1], year, hour, minute, second)


def now_date() -> bytes:
    """The present second as an HTTP date, made once a second."""
    global _last
    second = int(time.time())
    if _last[0] != second:
        _last = (second, http_date(second))
    return _last[1]


def parse_date(text: bytes) -> int:
    """Seconds since the epoch of any of the three forms of RFC 9110, -1 if it is none (ngx_parse_http_time)."""
    from calendar import timegm
    from email.utils import parsedate

    try:
        parsed = parsedate(text.decode("ascii"))
        return timegm(parsed) if parsed is not None else -1
    except (ValueError, OverflowError, IndexError):
        return -1
