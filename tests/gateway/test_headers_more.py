"""headers-more: what is refused, and what a request sees of itself once its headers were changed."""

from pathlib import Path

import pytest

from gateway.config.schema import ConfigError
from tests.gateway.livesite import serving
from tests.gateway.nginx import compiled


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("more_set_headers -x a;", 'more_set_headers: invalid option name: "-x"'),
        ("more_clear_headers -a a;", 'more_clear_headers: invalid option name: "-a"'),
        ("more_set_headers -t;", "more_set_headers: option -t takes an argument."),
        ("more_set_headers -s 2x0 a;", 'more_set_headers: invalid digit "x" found in the status code list "2x0"'),
        ("more_set_input_headers -s 200 a;", 'more_set_input_headers: invalid option name: "-s"'),
        ("more_set_headers ' ';", "more_set_headers: no key found in the header argument:  "),
        ("more_clear_headers *;", "more_clear_headers: wildcard key too short: *"),
        ("more_set_headers 'A: $nosuch';", 'unknown "nosuch" variable'),
    ],
)
def test_what_is_refused(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        compiled(tmp_path, f"server {{ location / {{ {line} }} }}")
    assert refused.value.message == message


def test_a_host_that_is_none_ends_the_request(tmp_path: Path) -> None:
    conf = 'location / { more_set_input_headers "Host: $arg_h"; echo "$host"; }'
    with serving(tmp_path, conf) as site:
        assert site.get("/?h=New.example.com:8080").body == b"new.example.com\n"
        assert site.get("/?h=a/b").head == b""


def test_options_add_up(tmp_path: Path) -> None:
    conf = (
        "more_set_headers -s '404 500' -s 503 -t 'text/html;text/plain' -t text/css 'X: y'; default_type text/css;"
        "location = /404 { return 404 x; } location = /503 { return 503 x; } location = /200 { return 200 x; }"
        "location = /json { default_type application/json; return 404 x; }"
    )
    with serving(tmp_path, conf) as site:
        assert [site.get(uri).get("X") for uri in ("/404", "/503", "/200", "/json")] == ["y", "y", None, None]


def test_added_headers_beside_those_there_are(tmp_path: Path) -> None:
    conf = "location / { more_set_headers 'A: 1'; more_set_headers -a 'A: 2' 'A: 3'; return 200 x; }"
    with serving(tmp_path, conf) as site:
        assert site.get("/").all("A") == ["1", "2", "3"]
