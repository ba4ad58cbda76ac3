"""Names of cached answers: nginx's MD5 of the key, its folders by `levels`, and the second name for `Vary`.

Source: https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_cache_path; RFC 9111 section 4.1;
ngx_http_file_cache_vary.
"""

from hashlib import md5

from gateway.http.headers import RequestHeaders

VARY_BYTES = 128  # nginx's NGX_HTTP_CACHE_VARY_LEN: a longer Vary makes an answer one that is not kept
# only white space and empty elements are of no meaning in these, as nginx has it
_LISTS = frozenset((b"accept-charset", b"accept-encoding", b"accept-language"))


def name_of(key: bytes) -> str:
    """The file name of a key, 32 hexadecimal digits."""
    return md5(key, usedforsecurity=False).hexdigest()


def variant_of(key: bytes, vary: bytes, headers: RequestHeaders) -> str:
    """The file name of the answer to these headers, by the `Vary` of an answer to the same key."""
    digest = md5(key, usedforsecurity=False)
    for word in vary.lower().replace(b",", b" ").split():
        values = headers.all(word)
        if word in _LISTS:
            values = [part for value in values for part in value.replace(b",", b" ").split()]
        digest.update(b"\0%b:%b\r\n" % (word, b",".join(values)))
    return digest.hexdigest()


def below(levels: tuple[int, ...], name: str) -> str:
    """A name with its folders: taken from its end, as `levels` says."""
    folders, end = "", len(name)
    for level in levels:
        folders += name[end - level : end] + "/"
        end -= level
    return folders + name
