"""Lua in a running gateway: a configuration, requests, and what comes of them."""

import gzip
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config.schema import ConfigError
from tests.gateway.luaserver import Server, load, serving

HTTP = """
    init_by_lua_block {
        answer = 42
    }
    lua_package_path "$prefix/html/?.lua;;";
"""
LOCATIONS = """
    location /say { content_by_lua_block {
        ngx.header["X-A"] = "1"
        ngx.say("hello ", answer, " ", ngx.var.uri, " ", ngx.var.arg_x)
    } }
    location /string { content_by_lua 'ngx.say("quoted \\\\"", ngx.var.arg_a, "\\\\"")'; }
    location /file { content_by_lua_file html/$arg_name.lua; }
    location /module { content_by_lua_block { require("greeting").say() } }
    location /error { content_by_lua_block {
        local function f() error("deep") end
        f()
    } }
    location /syntax { content_by_lua_block { this is not Lua } }
    location /late { content_by_lua_block { ngx.say("a") ngx.flush(true) error("late") } }
    location /cut { content_by_lua_block { ngx.say("a") error("late") } }
    location /waits { content_by_lua_block {
        ngx.say("a") ngx.flush(true) ngx.sleep(0.001) ngx.say("b")
    } }
    location /waits-first { content_by_lua_block { ngx.sleep(0.001) ngx.header.x_late = 1 ngx.say("c") } }
    location /access {
        access_by_lua_block {
            ngx.header["X-Access"] = "seen"
            if ngx.var.arg_user ~= "me" then return ngx.exit(ngx.HTTP_FORBIDDEN) end
        }
        content_by_lua 'ngx.print("in")';
    }
    location /satisfied { satisfy any; deny all;
        access_by_lua 'if ngx.var.arg_code then ngx.exit(tonumber(ngx.var.arg_code)) end';
        content_by_lua 'ngx.print("in")';
    }
    location /static/ {
        access_by_lua 'ngx.header["X-Access"] = "seen"';
        header_filter_by_lua_block {
            ngx.header["X-Type"] = ngx.header.content_type
            ngx.header["X-Length"] = ngx.header.content_length
        }
        alias HTML/;
    }
    location /early { rewrite_by_lua 'ngx.say("from rewrite")'; content_by_lua 'ngx.say("never")'; }
    location /set {
        set $a 5;
        set_by_lua_block $b { return ngx.var.a + 1 }
        set_by_lua $sum 'return ngx.arg[1] + ngx.arg[2]' $a $arg_n;
        set $c "$b!";
        return 200 "$c $sum";
    }
    location /set-error { set_by_lua_block $b { error("no") } return 200 $b; }
    location /upper {
        header_filter_by_lua_block { ngx.header.content_length = nil ngx.header["X-Status"] = ngx.status }
        body_filter_by_lua_block { ngx.arg[1] = ngx.arg[1]:upper() }
        return 200 "some text";
    }
    location /pieces {
        content_by_lua 'ngx.print("one") ngx.print("two")';
        body_filter_by_lua_block { ngx.arg[1] = "[" .. ngx.arg[1] .. "," .. tostring(ngx.arg[2]) .. "]" }
    }
    location /collected {
        content_by_lua 'ngx.print("one") ngx.flush(true) ngx.print("two")';
        body_filter_by_lua_block {
            ngx.ctx.all = (ngx.ctx.all or "") .. ngx.arg[1]
            ngx.arg[1] = ngx.arg[2] and ngx.ctx.all:reverse() or nil
        }
    }
    location /bad-head { header_filter_by_lua 'error("head")'; return 200 "x"; }
    location /bad-body { body_filter_by_lua 'error("body")'; return 200 "x"; }
    location /exit-head { header_filter_by_lua 'return ngx.exit(403)'; return 200 "x"; }
    location /logged { log_by_lua 'ngx.log(ngx.WARN, "status ", ngx.status, " of ", ngx.var.uri)'; return 204; }
    location /bad-log { log_by_lua 'error("in log")'; return 204; }
    location /echo { content_by_lua_block {
        ngx.req.read_body()
        ngx.say(ngx.req.get_body_data() or "nil", " ", ngx.req.get_post_args().a)
    } }
    location /needs { lua_need_request_body on; content_by_lua 'ngx.say(ngx.req.get_body_data())'; }
    location /unread { content_by_lua 'ngx.say(ngx.req.get_body_data())'; }
    location /redirect { content_by_lua 'ngx.redirect("/say?x=" .. ngx.var.arg_x, 301)'; }
    location /exec { content_by_lua 'ngx.exec("/say", { x = "exec" })'; }
    location /named { content_by_lua 'ngx.exec("@named")'; }
    location @named { content_by_lua 'ngx.say("named ", ngx.var.uri)'; }
    location /jump { rewrite_by_lua 'ngx.req.set_uri("/say", true)'; }
    location /eof { content_by_lua 'ngx.say("done") ngx.eof() ngx.sleep(0.001) ngx.log(ngx.WARN, "after eof")'; }
    location /fresh { lua_code_cache off; content_by_lua 'counted = (counted or 0) + 1 ngx.say(counted)'; }
    location /inherit {
        header_filter_by_lua 'ngx.header["X-Outer"] = 1';
        location /inherit/own { header_filter_by_lua 'ngx.header["X-Own"] = 1'; return 200 "x"; }
        location /inherit/it { return 200 "x"; }
    }
    location /if { if ($arg_a) { content_by_lua 'ngx.say("in the if")'; } content_by_lua 'ngx.say("outside")'; }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("lua")
    (root / "html").mkdir()
    (root / "html" / "hello.lua").write_text(
        "#!/usr/bin/env lua\nngx.say('from a file, line ', debug.getinfo(1).currentline)\n"
    )
    (root / "html" / "greeting.lua").write_text("return { say = function() ngx.say('from a module') end }\n")
    (root / "html" / "page.txt").write_text("a page")
    with serving(root, LOCATIONS.replace("HTML", str(root / "html")), HTTP) as running:
        yield running


@pytest.mark.parametrize(
    ("target", "status", "body"),
    [
        ("/say?x=7", 200, "hello 42 /say 7\n"),
        ("/string?a=b", 200, 'quoted "b"\n'),
        ("/file?name=hello", 200, "from a file, line 2\n"),
        ("/module", 200, "from a module\n"),
        ("/waits", 200, "a\nb\n"),
        ("/waits-first", 200, "c\n"),
        ("/access?user=me", 200, "in"),
        ("/satisfied", 200, "in"),
        ("/satisfied?code=0", 200, "in"),
        ("/static/page.txt", 200, "a page"),
        ("/early", 200, "from rewrite\n"),
        ("/set?n=3", 200, "6! 8"),
        ("/upper", 200, "SOME TEXT"),
        ("/pieces", 200, "[one,false][two,false][,true]"),
        ("/collected", 200, "owteno"),
        ("/exec", 200, "hello 42 /say exec\n"),
        ("/named", 200, "named /named\n"),
        ("/jump", 200, "hello 42 /say nil\n"),
        ("/eof", 200, "done\n"),
        ("/fresh", 200, "1\n"),
        ("/if", 200, "outside\n"),
        ("/if?a=1", 200, "in the if\n"),
    ],
)
def test_answers(server: Server, target: str, status: int, body: str) -> None:
    for _ in range(2):
        answer = server.get(target)
        assert (answer.status, answer.text) == (status, body)


@pytest.mark.parametrize(
    ("target", "status", "logged"),
    [
        ("/satisfied?code=403", 403, "access forbidden by rule"),
        ("/satisfied?code=-5", 403, "access forbidden by rule"),
        ("/error", 500, "lua entry thread aborted: runtime error: content_by_lua(nginx.conf:"),
        ("/syntax", 500, "failed to load inlined Lua code: content_by_lua(nginx.conf:"),
        ("/file?name=none", 404, "none.lua: No such file or directory"),
        ("/set-error", 500, "failed to run set_by_lua*: set_by_lua(nginx.conf:"),
        ("/bad-head", 0, "failed to run header_filter_by_lua*: header_filter_by_lua(nginx.conf:"),
        ("/bad-body", 0, "failed to run body_filter_by_lua*: body_filter_by_lua(nginx.conf:"),
        ("/bad-log", 204, "failed to run log_by_lua*: log_by_lua(nginx.conf:"),
    ],
)
def test_errors(server: Server, target: str, status: int, logged: str) -> None:
    assert server.get(target).status == status
    assert logged in server.log
    assert server.get("/say").status == 200


def test_an_error_names_its_line(server: Server) -> None:
    server.get("/error")
    assert ":2: deep\nstack traceback:\ncoroutine 0:\n\t[C]: in function 'error'\n" in server.log
    assert ':3: in main chunk, client: 127.0.0.1, server: , request: "GET /error HTTP/1.1"' in server.log


def test_an_error_after_the_head_closes(server: Server) -> None:
    answer = server.raw(b"GET /late HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.status == 200
    assert not answer.raw.endswith(b"0\r\n\r\n")


def test_what_was_said_before_an_error_arrives(server: Server) -> None:
    answer = server.raw(b"GET /cut HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.status == 200
    assert answer.raw.endswith(b"\r\n\r\n2\r\na\n\r\n")


def test_headers_meet_the_answers_of_other_modules(server: Server) -> None:
    answer = server.get("/static/page.txt")
    assert (answer.get("X-Access"), answer.get("X-Type"), answer.get("X-Length")) == ("seen", "text/plain", "6")
    refused = server.get("/access")
    assert (refused.status, refused.get("X-Access")) == (403, "seen")
    assert server.get("/exit-head").status == 403
    assert server.get("/upper").get("Content-Length") is None
    own, inherited = server.get("/inherit/own"), server.get("/inherit/it")
    assert (own.get("X-Own"), own.get("X-Outer")) == ("1", None)
    assert (inherited.get("X-Own"), inherited.get("X-Outer")) == (None, "1")


def test_http_10_gets_a_length(server: Server) -> None:
    answer = server.get("/say", http="1.0")
    assert answer.get("Content-Length") == str(len(answer.body))
    assert server.get("/say").get("Transfer-Encoding") == "chunked"


def test_head_has_no_body(server: Server) -> None:
    answer = server.get("/say", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")


def test_bodies(server: Server) -> None:
    form = b"a=1&b=2"
    assert server.get("/echo", method="POST", body=form).text == "a=1&b=2 1\n"
    assert server.get("/echo").text == "nil nil\n"
    assert server.get("/needs", method="POST", body=form).text == "a=1&b=2\n"
    assert server.get("/unread", method="POST", body=form).text == "nil\n"
    large = b"x" * 100_000
    assert server.get("/needs", method="POST", body=large).text == "nil\n"  # it is in a file


def test_redirects_are_sent_as_written(server: Server) -> None:
    answer = server.get("/redirect?x=1")
    assert (answer.status, answer.get("Location")) == (301, "/say?x=1")
    assert b"301 Moved Permanently" in answer.body


def test_logging_after_the_answer(server: Server) -> None:
    server.get("/logged")
    server.get("/eof")
    server.get("/say")
    assert "[warn]" in server.log
    assert "[lua] log_by_lua(nginx.conf:" in server.log
    assert "status 204 of /logged, client: 127.0.0.1" in server.log
    assert "[lua] content_by_lua(nginx.conf:" in server.log
    assert "after eof" in server.log


def test_a_waiting_script_ends_with_its_client(tmp_path: Path) -> None:
    conf = """location /long {
        lua_check_client_abort on;
        access_by_lua 'ngx.sleep(60)';
        log_by_lua 'ngx.log(ngx.WARN, "ended with ", ngx.status)';
    }"""
    with serving(tmp_path, conf) as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as client:
            client.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        assert "client prematurely closed connection" in running.log
        assert "ended with 499" in running.log


# compression

COMPRESSION = """
    compress_by_lua_file PLUGINS/choose_coding.lua;
    header_filter_by_lua_file PLUGINS/skip_audio.lua;
    gzip on; gzip_types *; gzip_min_length 1;
    location /json { default_type application/json; content_by_lua 'ngx.print(("{}"):rep(500))'; }
    location /short { default_type application/json; return 200 "{}"; }
    location /css { default_type text/css; return 200 "CSS"; }
    location /events { default_type text/event-stream; content_by_lua 'ngx.say("data: 1")'; }
    location /audio { default_type audio/wav; return 200 "WAV"; }
    location /other { default_type application/x-other; return 200 "OTHER"; }
    location /broken { compress_by_lua_block { error("a bad edit") } default_type text/css; return 200 "CSS"; }
    location /off { compress_by_lua_block { return false } default_type text/css; return 200 "CSS"; }
    location /wish { default_type text/css; header_filter_by_lua_block {
        local coding = require("ngx.compress").use("br,gzip", { level = 1 })
        ngx.header["X-Coding"] = coding
    } return 200 "CSS"; }
"""


@pytest.fixture(scope="module")
def compressing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    plugins = Path(__file__).parents[2] / "lua"
    text = COMPRESSION.replace("PLUGINS", str(plugins)).replace("CSS", "a { b: c }" * 100)
    text = text.replace("WAV", "RIFF" * 300).replace("OTHER", "other" * 200)
    with serving(tmp_path_factory.mktemp("compression"), text) as running:
        yield running


@pytest.mark.parametrize(
    ("target", "accept", "coding"),
    [
        ("/json", "gzip, br, zstd", "zstd"),
        ("/json", "gzip, br", "br"),
        ("/json", "gzip;q=1, br;q=0.1", "gzip"),
        ("/json", "identity", None),
        ("/short", "gzip", None),
        ("/css", "gzip, br, zstd", "br"),
        ("/events", "gzip, br, zstd", "gzip"),
        ("/audio", "gzip, br, zstd", None),
        ("/other", "gzip, br, zstd", "gzip"),
        ("/broken", "gzip, br", "gzip"),
        ("/off", "gzip, br", None),
        ("/wish", "gzip, br", "br"),
        ("/wish", "gzip", "gzip"),
    ],
)
def test_the_plugins_choose(compressing: Server, target: str, accept: str, coding: str | None) -> None:
    answer = compressing.get(target, f"Accept-Encoding: {accept}")
    assert (answer.status, answer.get("Content-Encoding")) == (200, coding)
    if coding == "gzip":
        assert gzip.decompress(answer.body)


def test_a_chosen_coding_has_its_headers(compressing: Server) -> None:
    answer = compressing.get("/json", "Accept-Encoding: zstd")
    assert (answer.get("Vary"), answer.get("Content-Length")) == ("Accept-Encoding", None)
    assert compressing.get("/wish", "Accept-Encoding: br").get("X-Coding") == "br"
    compressing.get("/broken", "Accept-Encoding: gzip")
    assert "failed to run compress_by_lua*: compress_by_lua(nginx.conf:" in compressing.log


def test_an_answer_that_a_script_had_a_say_in_is_not_given_again(tmp_path: Path) -> None:
    loaded = load(tmp_path, "location /plain { } location /policy { compress_by_lua_block { return false } }")
    plain, policy = (loaded.site.servers[0].locations.prefixes[key] for key in (b"/plain", b"/policy"))
    assert plain.steady
    assert not policy.steady


# configurations that are refused


@pytest.mark.parametrize(
    ("server", "http", "message"),
    [
        ("", "lua_shared_dict dogs 1m;", '"lua_shared_dict" directive is not supported yet'),
        ("", "init_by_lua 'error(\"no start\")';", "init_by_lua error: init_by_lua(nginx.conf:"),
        ("", "init_by_lua_block { a b }", "init_by_lua error"),
        ("content_by_lua 'x';", "", '"content_by_lua" directive is not allowed here'),
        ("access_by_lua 'x'; access_by_lua_block { y }", "", '"access_by_lua_block" directive is duplicate'),
        ("set_by_lua res 'x';", "", 'invalid variable name "res"'),
    ],
)
def test_bad_configurations(tmp_path: Path, server: str, http: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, server, http)
    assert message in str(raised.value)


def test_a_configuration_without_lua_pays_nothing(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys, pathlib\n"
        "from tests.gateway.luaserver import load\n"
        "loaded = load(pathlib.Path(sys.argv[1]), 'location / { return 200 x; }')\n"
        "names = [name for name in sys.modules if name.startswith(('lupa', 'gateway.lua.runtime'))]\n"
        "print(names, [f.__module__ for s in loaded.site.servers for f in s.location.filters])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "lua" not in done.stdout
