"""The `ngx` functions, each as a script sees it. Expected values were taken from a real OpenResty module."""

import pytest

from gateway.lua import bridge
from gateway.lua.bridge import BODY_FILTER, HEADER_FILTER
from tests.gateway.luavm import Script


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ngx.escape_uri('a b/c?d=e')", "a%20b%2Fc%3Fd%3De"),
        ("ngx.escape_uri('-_.!~*\\'()')", "-_.!~*'()"),
        ("ngx.escape_uri('http://a/?b c', 0)", "http://a/%3Fb%20c"),
        ("ngx.unescape_uri('a+b%20c%zz%')", "a b c%zz%"),
        ("ngx.encode_args({ a = true, b = false })", "a"),
        ("ngx.encode_args({ ['x y'] = { 1, '&' } })", "x%20y=1&x%20y=%26"),
        ("ngx.decode_args('a=1&b&c=&a=2').a", "12"),
        ("ngx.decode_args('a=1&b&c=').b", "true"),
        ("select(2, ngx.decode_args('a&b&c', 2))", "truncated"),
        ("ngx.md5('hello')", "5d41402abc4b2a76b9719d911017c592"),
        ("#ngx.md5_bin('hello')", "16"),
        ("ngx.encode_base64(ngx.sha1_bin('hello'))", "qvTGHdzF6KLavt4PO0gs2a6pQ00="),
        (
            "ngx.encode_base64(ngx.hmac_sha1('Jefe', 'what do ya want for nothing?'))",
            "7/zfauXrL6LSdBbV8YTfnCWafHk=",
        ),  # RFC 2202
        ("ngx.crc32_short('hello')", "907060870"),
        ("ngx.crc32_long('hello')", "907060870"),
        ("ngx.encode_base64('ab', true)", "YWI"),
        ("ngx.decode_base64('YWI=')", "ab"),
        ("ngx.decode_base64('YW')", "a"),
        ("ngx.decode_base64('not base64')", "nil"),
        ("ngx.quote_sql_str('a\\'b')", "'a\\'b'"),
        ("ngx.http_time(1290079655)", "Thu, 18 Nov 2010 11:27:35 GMT"),
        ("ngx.cookie_time(1290079655)", "Thu, 18-Nov-10 11:27:35 GMT"),
        ("ngx.parse_http_time('Thu, 18 Nov 2010 11:27:35 GMT')", "1290079655"),
        ("ngx.parse_http_time('yesterday')", "nil"),
        ("type(ngx.now())", "number"),
        ("math.abs(ngx.time() - ngx.now()) < 2", "true"),
        ("#ngx.utctime()", "19"),
        ("tostring(ngx.null)", "userdata: NULL"),
        ("ngx.null", "null"),
        ("{ 'a', { 'b', 3 }, true }", "ab3true"),
        ("ngx.config.subsystem, ngx.config.prefix()", "http/srv/"),
        ("ngx.get_phase()", "content"),
        ("ngx.HTTP_MOVED_PERMANENTLY, ngx.ERR, ngx.DECLINED", "3014-5"),
    ],
)
def test_values(script: Script, code: str, expected: str) -> None:
    assert script.says(f"ngx.say({code})") == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ngx.req.get_method(), ngx.req.http_version()", "GET1.1"),
        ("ngx.req.get_headers()['X-Many']", "12"),
        ("ngx.req.get_headers().host", "example.org"),
        ("ngx.req.get_headers().accept_encoding", "gzip, br;q=0.5"),
        ("select(2, ngx.req.get_headers(1))", "truncated"),
        ("ngx.req.get_headers(0, true).Host", "example.org"),
        ("ngx.req.get_uri_args().x", "12"),
        ("ngx.req.get_uri_args().y, ngx.req.get_uri_args().z", "true"),
        ("ngx.req.start_time()", "1700000000.5"),
        ("ngx.req.is_internal(), ngx.is_subrequest", "falsefalse"),
        ("(ngx.req.raw_header():match('^[^\\r]+'))", "GET /a?x=1&y&x=2 HTTP/1.1"),
    ],
)
def test_the_request(script: Script, code: str, expected: str) -> None:
    assert script.says(f"ngx.say({code})") == expected


def test_request_headers_can_be_changed(script: Script) -> None:
    script.says("ngx.req.set_header('X-Many', {'a', 'b'}) ngx.req.set_header('X-New', 1) ngx.req.clear_header('Host')")
    head = script.request.headers
    assert head.all(b"x-many") == [b"a", b"b"]
    assert head.get(b"x-new") == b"1"
    assert head.get(b"host") is None
    script.says("ngx.req.set_header('X-Evil', 'a\\r\\nX-Other: b')")
    assert script.request.headers.get(b"x-evil") == b"a%0D%0AX-Other: b"


def test_uri_method_and_arguments_can_be_changed(script: Script) -> None:
    script.says("ngx.req.set_uri('/new') ngx.req.set_uri_args({ a = 1 }) ngx.req.set_method(ngx.HTTP_PUT)")
    assert (script.request.uri, script.request.args, script.request.method) == (b"/new", b"a=1", b"PUT")
    assert "unsafe byte" in script.error("ngx.req.set_uri('/a\\nb')")
    assert "API disabled in the context of content_by_lua*" in script.error("ngx.req.set_uri('/x', true)")


def test_variables(script: Script) -> None:
    assert script.says("ngx.say(ngx.var.fixed, ngx.var.unset, ngx.var[1])") == "unchangingnilnil"
    assert script.says("ngx.var.mine = 5 ngx.say(ngx.var.mine, type(ngx.var.mine), ngx.var.MINE)") == "5string5"
    assert 'variable "fixed" not changeable' in script.error("ngx.var.fixed = 1")
    assert "got boolean" in script.error("ngx.var.mine = true")


def test_response_headers(script: Script) -> None:
    code = """
        ngx.header.content_type = "text/html; charset=utf-8"
        ngx.header["X-A"] = { "1", "2" }
        ngx.header.x_a = "3"
        ngx.header["X-B"] = "gone"
        ngx.header.x_b = nil
        ngx.header.content_length = 5
        ngx.header["evil\\nname"] = "evil\\r\\nvalue"
        ngx.say(ngx.header["Content-Type"], "|", ngx.header.x_a, "|", ngx.header.x_b, "|", ngx.header.content_length)
    """
    assert script.says(code) == "text/html; charset=utf-8|3|nil|5"
    head = script.run.draft
    assert (head.content_type, head.charset, head.length) == (b"text/html", b"utf-8", 5)
    assert head.fields == [(b"X-A", b"3"), (b"evil%0Aname", b"evil%0D%0Avalue")]
    assert "failed to set header" in Script().error("ngx.header.content_length = 'x'")


def test_all_response_headers(script: Script) -> None:
    assert (
        script.says("ngx.header.x_a = 1 local h = ngx.resp.get_headers() ngx.say(h['X-A'], h.connection)") == "1close"
    )


def test_headers_are_decided_by_the_first_output(script: Script) -> None:
    assert script.says("local before = ngx.headers_sent ngx.print('') ngx.say(before, ngx.headers_sent)") == "falsetrue"
    assert script.run.draft.content_type == b"text/plain"
    assert script.says("ngx.say(ngx.eof(), ngx.say('x'))") == ""
    assert script.run.eof


def test_bad_arguments_name_themselves(script: Script) -> None:
    assert "bad argument #2 to 'say' (non-array table found)" in script.error("ngx.say('a', { b = 1 })")
    assert "bad argument #1 to 'log' (expected table to have __tostring metamethod)" in script.error(
        "ngx.log(ngx.ERR, {})"
    )
    assert "bad log level: 9" in script.error("ngx.log(9, 'x')")
    assert "does not accept NGX_AGAIN or NGX_DONE" in script.error("ngx.exit(ngx.AGAIN)")
    assert "invalid sleep duration" in script.error("ngx.sleep(-1)")
    assert "only ngx.HTTP_MOVED_TEMPORARILY" in script.error("ngx.redirect('/x', 200)")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ngx.re.match('hello, 1234', '([0-9])([0-9]+)')[2]", "234"),
        ("ngx.re.match('ab', '(?<first>a)(x)?').first", "a"),
        ("ngx.re.match('ab', '(a)(x)?')[2]", "false"),
        ("ngx.re.match('ab', 'B', 'i')[0]", "b"),
        ("ngx.re.match('ab', 'c')", "nil"),
        ("(ngx.re.find('hello, 1234', '[0-9]+'))", "8"),
        ("select(2, ngx.re.find('hello, 1234', '([0-9])([0-9]+)', 'jo', nil, 2))", "11"),
        ("(ngx.re.sub('hello', '(l)', '[$1${1}$$]'))", "he[ll$]lo"),
        ("select(2, ngx.re.gsub('a,b,c', ',', ';'))", "2"),
        ("(ngx.re.gsub('abc', '[ac]', function(m) return m[0]:upper() end))", "AbC"),
        ("(ngx.re.gsub('abc', '', '-'))", "-a-b-c-"),
        ("#require('ngx.re').split('a,b,,c', ',')", "4"),
        ("(ngx.re.sub('a', 'a', '$x'))", "nil"),
    ],
)
def test_regular_expressions(script: Script, code: str, expected: str) -> None:
    assert script.says(f"ngx.say({code})") == expected


def test_matches_one_after_the_other(script: Script) -> None:
    assert script.says("for m in ngx.re.gmatch('a1b22', '[0-9]+') do ngx.print(m[0], ';') end") == "1;22;"
    code = """
        local ctx = {}
        ngx.re.match('a1b22', '[0-9]+', '', ctx)
        ngx.say(ctx.pos, ngx.re.match('a1b22', '[0-9]+', '', ctx)[0])
    """
    assert script.says(code) == "322"
    assert 'unknown flag "H"' in script.error("ngx.re.match('a', 'a', 'H')")
    assert "pcre_compile() failed" in script.says("ngx.say(select(2, ngx.re.match('a', '(')))")


def test_the_body_filter_changes_pieces() -> None:
    script = Script()
    vm = script.site.vm
    bridge.current = script.run
    from gateway.lua.runtime import Chunk

    number = vm.load(Chunk(b"ngx.arg[1] = { ngx.arg[1]:upper(), { '!', 1 } } ngx.arg[2] = true", b"=test"))
    assert vm.body(number, script.run.number, b"abc", False) == (b"ABC!1", True)
    number = vm.load(Chunk(b"ngx.arg[1] = print", b"=test"))
    ok, text = vm.body(number, script.run.number, b"abc", False)
    assert ok is False and b"bad chunk data type: function" in text
    assert vm.body(vm.load(Chunk(b"return ngx.ERROR", b"=test")), script.run.number, b"", True) is False
    assert "API disabled in the context of body_filter_by_lua*" in script.error("ngx.exit(200)", BODY_FILTER)


def test_context_is_the_requests_own(script: Script) -> None:
    assert script.says("ngx.ctx.n = 1 ngx.ctx = { n = 2 } ngx.say(ngx.ctx.n)") == "2"
    assert Script().says("ngx.say(ngx.ctx.n)") == "nil"
    assert "ctx should be a table" in script.error("ngx.ctx = 1")


# ngx.compress


def test_codecs_round_trip(script: Script) -> None:
    code = """
        local compress = require "ngx.compress"
        for _, coding in ipairs(compress.available()) do
            local encoder = compress.encoder(coding, { level = 3 })
            local packed = encoder:update("hello ") .. encoder:flush() .. encoder:finish("world")
            local decoder = compress.decoder("auto", { max_size = "1k" })
            ngx.say(coding, " ", decoder:update(packed) .. decoder:finish(), " ", select(2, encoder:update("x")))
        end
    """
    assert script.says(code).splitlines() == [
        f"{name} hello world closed" for name in ("zstd", "br", "gzip", "deflate")
    ]
    assert script.run.codecs == {}


def test_codecs_refuse(script: Script) -> None:
    code = """
        local compress = require "ngx.compress"
        ngx.say(select(2, compress.encoder("rot13")))
        ngx.say(select(2, compress.decode("gzip", compress.encode("gzip", ("x"):rep(5000)), { max_size = 100 })))
        ngx.say(compress.decode("gzip", "no gzip"))
    """
    unknown, bomb, garbage = script.says(code).splitlines()
    assert unknown == 'unknown coding "rot13"'
    assert "larger than 100 bytes" in bomb
    assert garbage.startswith("nil")
    assert "unknown option 'lvl'" in script.error("require('ngx.compress').encoder('gzip', { lvl = 1 })")


def test_codecs_are_freed_with_the_request(script: Script) -> None:
    script.says("require('ngx.compress').encoder('gzip')")
    assert script.run.codecs is not None and len(script.run.codecs) == 1
    many = """
        for i = 1, 100 do
            local encoder, why = require('ngx.compress').encoder('gzip')
            if not encoder then ngx.say(why) break end
        end
    """
    assert script.says(many) == "too many open encoders"


def test_negotiation(script: Script) -> None:
    code = """
        local compress = require "ngx.compress"
        ngx.say(compress.negotiate("br,gzip"), " ", select(2, compress.negotiate("zstd")), " ", compress.accepts().br)
    """
    assert script.says(code) == "gzip not acceptable 0.5"


def test_a_wish_reaches_the_filter(script: Script) -> None:
    from gateway.http.compression import WISH, Wish

    use = "local c = require 'ngx.compress' ngx.log(ngx.DEBUG, c.use('br,gzip', { level = 3, min_length = '1k' }))"
    assert script.enter(use, HEADER_FILTER) is None
    assert script.request.note(WISH) == Wish(("br", "gzip"), 3, 1024, False)
    script.enter("require('ngx.compress').off()", HEADER_FILTER)
    assert script.request.note(WISH) == Wish(())


def test_lua_zlib_scripts_run(script: Script) -> None:
    code = """
        local zlib = require "zlib"
        local packed = zlib.deflate(5, 31)("hello", "finish")
        ngx.say(zlib.inflate()(packed), " ", packed:byte(1))
    """
    assert script.says(code) == "hello 31"
