"""HTTP dates (RFC 9110 section 5.6.7) and the clock line of the present second."""

import time

_DAYS = (b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun")
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
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
    words = text.strip(b" ").replace(b"-", b" ").split()
    if b"," in text:  # Sun, 06 Nov 1994 08:49:37 GMT, or Sunday, 06-Nov-94 08:49:37 GMT
        if len(words) != 6 or words[5] != b"GMT":
            return -1
        _, day, month, year, clock, _ = words
        if len(year) == 2 and year.isdigit():
            year = (b"19" if int(year) >= 70 else b"20") + year
    elif len(words) == 5:  # Sun Nov  6 08:49:37 1994
        _, month, day, clock, year = words
    else:
        return -1
    parts = clock.split(b":")
    if month not in _MONTHS or len(year) != 4 or len(parts) != 3 or not all(map(bytes.isdigit, (day, year, *parts))):
        return -1
    return _epoch(int(year), _MONTHS.index(month) + 1, int(day), *map(int, parts))


def _epoch(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    """Seconds since 1970 of a date in UTC, -1 for one that is not in the calendar."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 29 if month == 2 and leap else _LENGTHS[month - 1]
    if not 1 <= day <= longest or hour > 23 or minute > 59 or second > 59 or year < 1970:
        return -1
    # days before the year, then before the month: March is counted as the first of a year that ends with February
    year, month = (year - 1, month + 9) if month <= 2 else (year, month - 3)
    days = year * 365 + year // 4 - year // 100 + year // 400 + (month * 306 + 5) // 10 + day - 1 - 719468
    return ((days * 24 + hour) * 60 + minute) * 60 + second
