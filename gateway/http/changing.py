"""What filters that change a body do to its head: length, ranges, entity tag, date; and the test of its type.

Source: ngx_http_clear_content_length and its kin, ngx_http_weak_etag, ngx_http_test_content_type.
"""

from gateway.http.message import Response


def has_type(response: Response, types: frozenset[bytes]) -> bool:
    """Whether the answer has one of the types (lower case; `*` stands for all, and for none)."""
    if b"*" in types:
        return True
    kind = response.content_type
    return kind is not None and kind.lower() in types


def changed(response: Response) -> None:
    """Another length, and no ranges of it."""
    response.length = -1
    response.ranges = False
    response.remove(b"accept-ranges")


def weaken(response: Response) -> None:
    """The same meaning in other bytes: RFC 9110 section 8.8.1."""
    fields = response.fields
    for index, (name, value) in enumerate(fields):
        if name.lower() == b"etag":
            if value.startswith(b"W/"):
                return
            if value.startswith(b'"'):
                fields[index] = (name, b"W/" + value)
            else:
                del fields[index]
            return


def undate(response: Response, keep: bool) -> None:
    """A body made for this request alone has neither date nor tag, unless the operator says that they still hold."""
    if keep:
        weaken(response)
        return
    response.last_modified, response.last_modified_text = -1, None
    response.remove(b"last-modified")
    response.remove(b"etag")
