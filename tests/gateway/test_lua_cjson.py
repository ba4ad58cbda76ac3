"""cjson in Lua: lua-cjson's answers, and Python's json as the judge of what is written and read."""

import json
from typing import Any

import pytest

from tests.gateway.luavm import Script


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("nil", "null"),
        ("ngx.null", "null"),
        ("cjson.null", "null"),
        ("true", "true"),
        ("1", "1"),
        ("1.5", "1.5"),
        ("1/3", "0.33333333333333"),
        ("{}", "{}"),
        ("cjson.empty_array", "[]"),
        ("setmetatable({}, cjson.empty_array_mt)", "[]"),
        ("setmetatable({}, cjson.array_mt)", "[]"),
        ("{ 1, 'a', { false } }", '[1,"a",[false]]'),
        ("{ 1, nil, 3 }", "[1,null,3]"),
        ("{ a = { b = 1 } }", '{"a":{"b":1}}'),
        ("{ [1.5] = 2 }", '{"1.5":2}'),
        ("'a/b\\n\\1\\\\'", '"a\\/b\\n\\u0001\\\\"'),
    ],
)
def test_encoding(script: Script, value: str, expected: str) -> None:
    assert script.says(f"local cjson = require 'cjson' ngx.say(cjson.encode({value}))") == expected


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        12,
        -1.5e3,
        "plain",
        'quotes " \\ / \b\f\n\r\t \x00 \x7f',
        "über 漢字 😀",
        [],
        [1, [2, [3]], {}],
        {"a": {"b": [None, False]}, "": 0},
    ],
)
def test_round_trips(script: Script, value: Any) -> None:
    for ascii_only in (True, False):
        script.run.request.args = json.dumps(value, ensure_ascii=ascii_only).encode()
        code = """
            local cjson = require("cjson").new()
            cjson.decode_array_with_array_mt(true)
            ngx.print(cjson.encode(cjson.decode(ngx.var.args_text)))
        """
        script.request.assign("args_text", script.run.request.args)
        assert json.loads(script.says(code)) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expected value but found T_END at character 1"),
        ("[1,]", "Expected value but found invalid token at character 4"),
        ("[1 2]", "Expected comma or array end but found invalid token at character 4"),
        ("{1:2}", "Expected object key string but found invalid token at character 2"),
        ('{"a" 2}', "Expected colon but found invalid token at character 6"),
        ("1 x", "Expected the end but found invalid token at character 3"),
        ('"\\x"', "Expected value but found invalid token at character 2"),
        ("[" * 1001, "Found too many nested data structures (1001)"),
    ],
)
def test_bad_text(script: Script, text: str, message: str) -> None:
    script.request.assign("text", text.encode())
    assert message in script.says("ngx.say(select(2, require('cjson.safe').decode(ngx.var.text)))")
    assert message in script.error("require('cjson').decode(ngx.var.text)")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("print", "Cannot serialise function: type not supported"),
        ("{ [true] = 1 }", "Cannot serialise boolean: table key must be a number or string"),
        ("0/0", "Cannot serialise number: must not be NaN or Infinity"),
        ("{ [1] = 1, [100] = 2 }", "Cannot serialise table: excessively sparse array"),
        ("deep", "Cannot serialise, excessive depth (1001)"),
    ],
)
def test_values_that_are_not_json(script: Script, value: str, message: str) -> None:
    code = f"local deep = {{}} deep[1] = deep ngx.say(select(2, require('cjson.safe').encode({value})))"
    assert script.says(code) == message
