"""Which location answers: the static tree, nesting, regular expressions, named locations, and the memo of routes."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.router import ROUTES_KEPT, Listen, Location, Locations, Server, _search, find
from gateway.http.settings import Http
from gateway.pattern import Pattern
from tests.gateway.livesite import Site, serving
from tests.gateway.nginx import needs_nginx
from tests.gateway.nginxserver import ask, nginx
from tests.gateway.tengine import free_port

NAMES = itertools.count()


def says(modifier: str, pattern: str, inner: str = "") -> str:
    name = f"{modifier}{pattern}".replace("$", "")
    return f'location {modifier} {pattern} {{ {inner} return 200 "{name}"; }}\n'


SERVER = "".join(
    (
        says("", "/"),
        says("=", "/"),
        says("", "/a/", says("", "/a/b/") + says("~", "\\.txt$") + says("=", "/a/exact")),
        says("^~", "/a/static/", says("~", "\\.gif$") + says("", "/a/static/deep/")),
        says("^~", "/plain/"),
        says("~", "^/re/(?<first>[^/]+)/([0-9]+)$").replace("return 200", 'set $x "$first"; return 200'),
        says("~*", "\\.PNG$"),
        says("~", "\\.txt$"),
        says("", "/re"),
        says("~", "^/outer", says("~", "regex$") + says("~", "^/outer/prefix")),
    )
)
TARGETS = [
    "/",
    "/x",
    "/a/",
    "/a/x",
    "/a/b",
    "/a/b/",
    "/a/b/c",
    "/a/x.txt",
    "/a/b/x.txt",
    "/a/exact",
    "/a/exact2",
    "/a/x.png",
    "/a/static/",
    "/a/static/x.txt",
    "/a/static/x.gif",
    "/a/static/x.png",
    "/a/static/deep/x",
    "/a/static/deep/x.txt",
    "/plain/x.txt",
    "/plain",
    "/re",
    "/re/one/2",
    "/re/one/two",
    "/regular",
    "/x.png",
    "/x.PnG",
    "/x.txt",
    "/outer",
    "/outer/prefix/x",
    "/outer/regex",
    "/outer/prefix/regex",
    "/outer.txt",
    "/%61/%62/c",
    "/a//b/c",
    "/a/./b/../x.txt",
]


@needs_nginx
def test_choices_as_nginx(tmp_path_factory: pytest.TempPathFactory) -> None:
    port = free_port()
    data = "".join(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n" for target in TARGETS).encode()
    data = data[: data.rindex(b"\r\n")] + b"Connection: close\r\n\r\n"
    with nginx(tmp_path_factory.mktemp("nginx"), f"server {{ listen 127.0.0.1:{port}; {SERVER} }}", port):
        theirs = ask(port, data, half_close=False)
    with serving(tmp_path_factory.mktemp("site"), SERVER) as site:
        for _ in range(2):  # the second time by the memo
            ours = site.raw(data)
            assert bodies(ours) == bodies(theirs)
    assert len(bodies(theirs)) == len(TARGETS)


def bodies(answers: bytes) -> list[bytes]:
    return [part.partition(b"\r\n\r\n")[2] for part in answers.split(b"HTTP/1.1 ")[1:]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    server = """
    location ~ ^/n/(?<word>[a-z]+)/([0-9]+)$ { return 200 "$word $1 $2"; }
    location /other { return 200 "[$word][$1]"; }
    location @named { return 200 "named $uri"; }
    location = /go { error_page 418 = @named; return 418; }
    location /proxied/ { proxy_pass http://127.0.0.1:1; }
    """
    with serving(tmp_path_factory.mktemp("site"), server) as made:
        yield made


def test_captures_are_set_each_time(site: Site) -> None:
    for _ in range(3):
        assert site.get("/n/abc/12").body == b"abc abc 12"
        assert site.get("/n/x/3").body == b"x x 3"
        assert site.get("/other").body == b"[][]"


def test_named_locations_are_for_redirects_only(site: Site) -> None:
    assert site.get("/go").body == b"named /go"
    assert site.get("/@named").status == 404


def test_a_prefix_that_passes_on_redirects_to_its_slash(site: Site) -> None:
    for _ in range(2):
        answer = site.get("/proxied?a=1")
        assert (answer.status, answer.get("Location")) == (301, f"http://localhost:{site.ports[0]}/proxied/?a=1")


# --- against a straightforward reading of the documentation

LETTERS = st.text("ab/", max_size=5)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["", "=", "^~", "~"]), LETTERS),
        max_size=8,
        unique_by=lambda one: (one[0] == "=", one[0] == "~", one[1]),
    ),
    LETTERS,
)
def test_the_longest_prefix_unless_a_regex_matches(described: list[tuple[str, str]], rest: str) -> None:
    locations, uri = Locations(), b"/" + rest.encode()
    for modifier, text in described:
        location = Location(f"{modifier}/{text}", Http(), stops=modifier == "^~", exact=modifier == "=")
        key = b"/" + text.encode()
        if modifier == "=":
            locations.exact[key] = location
        elif modifier == "~":
            locations.patterns.append((Pattern(key, False), location))
        else:
            locations.add_prefix(key, location)
    found = _search(locations, uri)[0]
    assert (found.name if found is not None else None) == reference(described, uri.decode())


def reference(described: list[tuple[str, str]], uri: str) -> str | None:
    if ("=", uri[1:]) in described:
        return f"={uri}"
    prefixes = [one for one in described if one[0] in ("", "^~") and uri.startswith("/" + one[1])]
    best = max(prefixes, key=lambda one: len(one[1]), default=None)
    if best is None or best[0] != "^~":
        for modifier, text in described:
            if modifier == "~" and "/" + text in uri:
                return f"~/{text}"
    return f"{best[0]}/{best[1]}" if best is not None else None


class Asked:
    """As much of a request as `find` looks at."""

    def __init__(self, uri: bytes) -> None:
        self.uri, self.captures = uri, ()


def test_the_memo_of_routes_is_bounded() -> None:
    server = Server(b"", Location("", Http()))
    server.locations.add_prefix(b"/", Location("/", Http()))
    for number in range(ROUTES_KEPT + 10):
        assert find(Asked(b"/%d" % number), server).name == "/"  # type: ignore[arg-type]
    assert len(server.routes) <= ROUTES_KEPT


# --- servers by name


@pytest.mark.parametrize(
    "host, wanted",
    [
        (b"a.com", "exact"),
        (b"x.a.com", "head"),
        (b"y.x.a.com", "head"),
        (b"www.x.a.com", "longer"),
        (b"x.com", "default"),
        (b"www.org", "tail"),
        (b"www.x.org", "tail"),
        (b"www.sub.net", "longertail"),
        (b"b7.com", "regex"),
        (b"", "default"),
        (b"com", "default"),
        (b".com", "default"),
    ],
)
def test_server_names(host: bytes, wanted: str) -> None:
    listen = Listen("*:80", "0.0.0.0", 80, "", {})

    def server(name: str) -> Server:
        return Server(name.encode(), Location("", Http()))

    listen.default = server("default")
    listen.names[b"a.com"] = server("exact")
    listen.heads |= {b".a.com": server("head"), b".x.a.com": server("longer")}
    listen.heads[b".a.com"] = server("head")
    listen.tails |= {b"www.": server("tail"), b"www.sub.": server("longertail")}
    listen.patterns.append((Pattern(rb"^b\d", False), server("regex")))
    found = listen.server(host).name.decode()
    assert found == (wanted if host != b"y.x.a.com" else "longer")
