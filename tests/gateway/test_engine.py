"""The request's walk: error_page in all its forms, internal redirects, `internal`, limit_except, satisfy."""

from collections.abc import Iterator

import pytest

from tests.gateway.livesite import Answer, Site, serving

SERVER = """
location = /page.txt { return 200 "page $uri $args $request_method\\n"; }
location = /file.html { }
location /keep { error_page 404 /page.txt; }
location /query { error_page 404 /page.txt?why=$uri; }
location /change { error_page 404 =201 /page.txt; }
location /own { error_page 404 = /page.txt; }
location /own-missing { error_page 404 = /nowhere; }
location /found { error_page 404 =200 /file.html; }
location /named { error_page 404 = @fallback; }
location /named-keep { error_page 404 @fallback; }
location /lost { error_page 404 @nobody; }
location /away { error_page 404 http://example.com/gone; }
location /away301 { error_page 404 =301 http://example.com/gone; }
location /away-odd { error_page 404 =200 http://example.com/gone; }
location /relative { error_page 404 =307 /page.txt; }
location /several { error_page 403 404 405 /file.html; }
location /first { error_page 404 /file.html; error_page 404 /page.txt; }
location /forbidden/ { error_page 403 =404 /file.html; }
location /twice { error_page 404 /twice-missing; location /twice-missing { error_page 404 /page.txt; } }
location /deep { recursive_error_pages on; error_page 404 /deeper/x;  }
location /deeper { recursive_error_pages on; error_page 404 =200 /file.html; }
location /circle { recursive_error_pages on; error_page 404 /circle/again; }
location /if { if ($arg_a) { error_page 404 /file.html; } }
location /body { error_page 405 /file.html; }
location /teapot { error_page 418 =200 /file.html; return 418; }
location /inherits { error_page 404 /file.html;
    location /inherits/own { error_page 403 /page.txt; } location /inherits/none { } }
location @fallback { add_header X-Named yes always; return 200 "fallback $uri $request_uri\\n"; }

location /loop/ { index /loop/; }
location /cycle { rewrite ^ /cycle last; }
location /breaks { rewrite ^/breaks(.*)$ /files$1 break; }
location /turn { rewrite ^/turn$ /turned?b=2 last; rewrite ^ /wrong last; }
location = /turned { return 200 "$uri $args $request_uri $request_method\\n"; }
location /try { try_files /nothing /hidden/x.txt; }
location /hidden { internal; }
location /hidden-page { error_page 404 /hidden/x.txt; }
location = /hidden-index/ { index /hidden/x.txt; }
location /fallback { try_files /nothing @fallback; }

location /limit { limit_except GET { deny all; } return 200 "limit $request_method\\n"; }
location /limit-file { limit_except GET POST { allow 127.0.0.2; deny all; } }
location /all { allow 127.0.0.1; deny all; auth_basic all; auth_basic_user_file %FOLDER%/users; }
location /any { satisfy any; allow 127.0.0.2; deny all; auth_basic any; auth_basic_user_file %FOLDER%/users; }
location /deny { deny all; error_page 403 /file.html; }
"""
FILES = {
    "file.html": b"file",
    "hidden/x.txt": b"hidden",
    "files/a": b"a",
    "limit-file": b"limited",
    "all": b"all",
    "any": b"any",
}
USER = "Authorization: Basic dXNlcjpzZWNyZXQ="  # user:secret


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "users").write_text("user:{PLAIN}secret\n")
    with serving(folder, SERVER, files=FILES) as made:
        (made.root / "forbidden").mkdir()
        yield made


PAGE = b"page /page.txt  GET\n"
FORMS: dict[str, tuple[int, bytes | None]] = {
    "/keep": (404, PAGE),
    "/query": (404, b"page /page.txt why=/query GET\n"),
    "/change": (201, PAGE),
    "/own": (200, PAGE),
    "/own-missing": (404, None),
    "/found": (200, b"file"),
    "/named": (200, b"fallback /named /named\n"),
    "/named-keep": (404, b"fallback /named-keep /named-keep\n"),
    "/lost": (500, None),
    "/away": (302, None),
    "/away301": (301, None),
    "/away-odd": (302, None),
    "/relative": (307, PAGE),
    "/several": (404, b"file"),
    "/first": (404, b"file"),
    "/forbidden/": (404, b"file"),
    "/twice": (404, None),
    "/deep": (200, b"file"),
    "/circle": (500, None),
    "/if?a=1": (404, b"file"),
    "/if": (404, None),
    "/teapot": (200, b"file"),
    "/inherits/none": (404, b"file"),
    "/inherits/own": (404, None),
    "/deny": (403, b"file"),
}


@pytest.mark.parametrize("target", FORMS)
def test_error_page(site: Site, target: str) -> None:
    status, body = FORMS[target]
    answer = site.get(target)
    assert answer.status == status
    if body is None:
        assert b"<center><h1>%d " % status in answer.body
    else:
        assert answer.body == body
    if target.startswith("/away"):
        assert answer.get("Location") == "http://example.com/gone"


def test_an_error_page_turns_the_method_to_get_but_for_head(site: Site) -> None:
    with site.connect() as client:
        client.send(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
        assert client.answer().status == 404
        client.send(b"DELETE /keep HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.answer().body.startswith(b"page /page.txt  GET\n")
        head = client.get("/found", method="HEAD")
        assert (head.status, head.get("Content-Length")) == (200, "4")
        assert client.get("/found").body == b"file"


def test_headers_of_an_error_outlive_its_page(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("other")
    (folder / "users").write_text("a:b\n")
    server = """auth_basic here; auth_basic_user_file %FOLDER%/users; error_page 401 /p;
    location = /p { auth_basic off; return 200 p; }"""
    with serving(folder, server) as other:
        answer = other.get("/")
        assert (answer.status, answer.body, answer.get("WWW-Authenticate")) == (401, b"p", 'Basic realm="here"')


# --- internal redirects


def test_a_cycle_of_redirects_is_500(site: Site) -> None:
    for target in ("/loop/", "/cycle"):
        assert site.get(target).status == 500
    log = site.log()
    assert 'rewrite or internal redirection cycle while internally redirecting to "/loop/"' in log
    assert 'rewrite or internal redirection cycle while processing "/cycle"' in log


def test_rewrites(site: Site) -> None:
    assert site.get("/breaks/a").body == b"a"
    assert site.get("/turn?a=1").body == b"/turned b=2&a=1 /turn?a=1 GET\n"


@pytest.mark.parametrize("target", ["/try", "/hidden-index/"])
def test_internal_locations_are_reached_from_inside_only(site: Site, target: str) -> None:
    assert site.get("/hidden/x.txt").status == 404
    assert (site.get(target).status, site.get(target).body) == (200, b"hidden")


def test_internal_locations_may_be_error_pages(site: Site) -> None:
    answer = site.get("/hidden-page")
    assert (answer.status, answer.body) == (404, b"hidden")


def test_a_named_location_keeps_the_uri(site: Site) -> None:
    answer = site.get("/fallback?x=1", method="POST")
    assert (answer.body, answer.get("X-Named")) == (b"fallback /fallback /fallback?x=1\n", "yes")


# --- access


@pytest.mark.parametrize(
    "method, status", [("GET", 200), ("HEAD", 200), ("POST", 403), ("DELETE", 403), ("OPTIONS", 403)]
)
def test_limit_except(site: Site, method: str, status: int) -> None:
    # `return` runs in the rewrite phase, before access is judged, and limit_except has a plan of its own without it
    answer = site.get("/limit-file", method=method)
    assert answer.status == (status if method != "POST" else 405)


def test_limit_except_leaves_out_what_stands_beside_it(site: Site) -> None:
    assert site.get("/limit").body == b"limit GET\n"


def test_limit_except_by_address(site: Site) -> None:
    with site.connect(source="127.0.0.2") as client:
        assert client.get("/limit-file", method="PUT").status == 405


def test_satisfy_all(site: Site) -> None:
    def ask(source: str, *headers: str) -> Answer:
        with site.connect(source=source) as client:
            return client.get("/all", *headers)

    assert ask("127.0.0.1").status == 401
    assert ask("127.0.0.1", USER).body == b"all"
    assert ask("127.0.0.2", USER).status == 403


def test_satisfy_any(site: Site) -> None:
    def ask(source: str, *headers: str) -> Answer:
        with site.connect(source=source) as client:
            return client.get("/any", *headers)

    assert ask("127.0.0.2").body == b"any"
    assert ask("127.0.0.1", USER).body == b"any"
    refused = ask("127.0.0.1")
    assert (refused.status, refused.get("WWW-Authenticate")) == (401, 'Basic realm="any"')
    assert ask("127.0.0.1", USER[:-4] + "AAA=").status == 401


def test_a_crash_in_a_handler_is_500_and_logged(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(_request: object) -> None:
        raise RuntimeError("by design")

    def breaking(service: object) -> tuple[object, ...]:
        location = service.site.servers[0].locations.exact[b"/file.html"]  # type: ignore[attr-defined]
        before, location.handlers = location.handlers, (broken,)
        return location, before

    location, before = site.ask(breaking)
    try:
        with site.connect() as client:
            assert client.get("/file.html").status == 500
    finally:
        location.handlers = before  # type: ignore[attr-defined]
    said = capfd.readouterr().err  # the process's own log
    assert "[alert]" in said and "by design" in said
