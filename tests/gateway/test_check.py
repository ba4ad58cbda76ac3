"""`tengine --check`: configurations judged where they lie."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.check import judging, reading
from gateway.check.command import summary
from gateway.check.verdict import Verdict
from gateway.process.options import UsageError, parse

WHOLE = "events {{ }} http {{ {} }}"


def judged(folder: Path, text: str) -> Verdict:
    return judging.judge(str(folder / "x.conf"), text.encode("utf-8", "surrogateescape"))


def problems(verdict: Verdict) -> list[tuple[str, str, str]]:
    return [(one.kind, one.message, one.hint) for one in verdict.problems]


def notes(verdict: Verdict, kind: str) -> list[str]:
    return [one.message for one in verdict.notes if one.kind == kind]


def test_a_configuration_without_notes_loads(tmp_path: Path) -> None:
    verdict = judged(tmp_path, WHOLE.format("server { listen 8080; location / { return 204; } }"))
    assert (verdict.words, verdict.shape, verdict.notes) == ("loads", "configuration", [])


def test_hosts_users_certificates_and_folders_need_not_be_there(tmp_path: Path) -> None:
    text = """
    user nobody-at-all; pid /nowhere/x.pid; error_log /nowhere/error.log;
    events { }
    http {
        access_log /nowhere/access.log;
        upstream u { server no-such-host.invalid:8080; server other.invalid; }
        server {
            listen internal-name.invalid:8080; root /nowhere;
            set_real_ip_from balancer.invalid;
            ssl_certificate /nowhere/a.pem; ssl_certificate_key /nowhere/a.key;
            location / { proxy_pass http://third.invalid; auth_basic x; auth_basic_user_file /nowhere/users; }
            location /u { proxy_pass http://u; }
        }
    }
    """
    assert problems(judged(tmp_path, text)) == []
    assert not (tmp_path / "x.conf").exists()


def test_the_network_is_as_it_was_afterwards(tmp_path: Path) -> None:
    import grp
    import pwd
    import socket

    from gateway import log

    before = socket.getaddrinfo, pwd.getpwnam, grp.getgrnam, log.main
    judged(tmp_path, WHOLE.format("nonsense;"))
    assert before == (socket.getaddrinfo, pwd.getpwnam, grp.getgrnam, log.main)


def test_all_mistakes_are_told_with_places_and_remedies(tmp_path: Path) -> None:
    text = "\n".join(
        [
            "events { } http { server {",
            "listen 80;",
            "location /a { proxy_pas http://a; }",
            "worker_processes 1;",
            "location /b { auth_jwt realm; }",
            "client_max_body_size many;",
            "root /srv",
            "index index.html;",
            "} }",
        ]
    )
    verdict = judged(tmp_path, text)
    assert problems(verdict) == [
        ("unknown", 'unknown directive "proxy_pas"', 'did you mean "proxy_pass"?'),
        ("invalid", '"worker_processes" directive is not allowed here', "it may stand in main"),
        ("unsupported", '"auth_jwt" directive is not supported yet', ""),
        ("invalid", '"client_max_body_size" directive invalid value', ""),
        ("invalid", 'invalid number of arguments in "root" directive', 'perhaps a ";" is missing before "index"'),
    ]
    assert [one.place.line for one in verdict.problems if one.place] == [3, 4, 5, 6, 8]
    assert verdict.words == "does not load"


def test_a_mistake_of_syntax_is_told_with_what_stands_before_it(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "events { } http { nosuch on; server { listen 80 } }")
    assert problems(verdict) == [
        ("syntax", 'unexpected "}"', 'perhaps a ";" is missing before it'),
        ("unknown", 'unknown directive "nosuch"', ""),
    ]


def test_idle_directives_are_notes_with_their_reasons(tmp_path: Path) -> None:
    verdict = judged(tmp_path, WHOLE.format("tcp_nopush on; server { tcp_nopush off; }"))
    assert verdict.words == "loads with notes"
    [note] = verdict.notes
    assert (note.kind, note.more) == ("idle", 1)
    assert note.message == '"tcp_nopush" has no effect here: head and body leave in one write'


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("upstream u { server a; } server { listen 80; }", "http-level snippet"),
        ("listen 80; server_name a; location / { proxy_pass http://x; }", "server-level snippet"),
        ("proxy_pass http://x; proxy_set_header Host $host;", "location-level snippet"),
        ("if ($args) { add_header A b; } alias /x;", "location-level snippet"),
        ("server 127.0.0.1:80; keepalive 4;", "upstream-level snippet"),
        ("worker_processes 4; pid x;", "main-level snippet"),
        ("upstream u { server a:1; } server { listen 1; proxy_pass u; proxy_timeout 1s; }", "stream-level snippet"),
        ("default 0;\n~^/a 1;", "lines of a table"),
        ("# nothing\n", "http-level snippet"),
    ],
)
def test_a_snippet_is_judged_at_its_level(tmp_path: Path, text: str, shape: str) -> None:
    verdict = judged(tmp_path, text)
    assert (verdict.shape, problems(verdict)) == (shape, [])


def test_what_another_file_may_define_is_a_note_in_a_snippet_and_a_mistake_in_a_whole(tmp_path: Path) -> None:
    server = "server { access_log x main; location / { proxy_set_header A $of_a_map; proxy_pass http://x; } }"
    told = judged(tmp_path, server)
    assert problems(told) == []
    assert len(notes(told, "elsewhere")) == 2
    assert [one[1] for one in problems(judged(tmp_path, WHOLE.format(server)))] == [
        'unknown log format "main"',
        'unknown "of_a_map" variable',
    ]


def test_included_files_are_read_and_missing_ones_passed_over(tmp_path: Path) -> None:
    (tmp_path / "snippets").mkdir()
    (tmp_path / "snippets" / "a.conf").write_text("\nnosuch on;\n")
    (tmp_path / "sites").mkdir()
    text = b"server { listen 80; include snippets/a.conf; include snippets/b.conf; }"
    verdict = judging.judge(str(tmp_path / "sites" / "x.conf"), text)
    assert [str(one.place) for one in verdict.problems] == [f"{tmp_path}/sites/snippets/a.conf:2"]
    [missing] = notes(verdict, "missing")
    assert "snippets/b.conf" in missing


def test_a_dump_is_read_as_the_files_it_is_made_of(tmp_path: Path) -> None:
    text = (
        "2026/11/30 10:00:00 [warn] 1#1: conflicting server name\n"
        "nginx: configuration file /etc/nginx/nginx.conf test is successful\n"
        "# configuration file /etc/nginx/nginx.conf:\nevents { }\nhttp { include conf.d/*.conf; include gone; }\n\n"
        "# configuration file /etc/nginx/conf.d/a.conf:\nserver {\n  nosuch on;\n}\n\n"
    )
    verdict = judged(tmp_path, text)
    assert verdict.shape == "dump of 2 files"
    assert [str(one.place) for one in verdict.problems] == ["/etc/nginx/conf.d/a.conf:2"]
    assert len(notes(verdict, "missing")) == 1


def test_only_a_dump_is_taken_for_one() -> None:
    assert reading.parts(b"user x;\n# configuration file a:\nuser y;\n") == {}
    assert list(reading.parts(b"# configuration file a:\nx;\n\n# configuration file b:\ny;\n")) == ["a", "b"]


def test_values_that_a_template_leaves_open_are_not_judged(tmp_path: Path) -> None:
    text = """
    server {
        listen {{PORT}};
        server_name {{ .Host.Name }} __NAME__;
        {{EXTRA}}
        client_max_body_size %size%;
        location __PATH__/ { proxy_pass http://${BACKEND}:80/; keepalive_timeout wrong; }
    }
    """
    verdict = judged(tmp_path, text)
    assert [one.message for one in verdict.problems] == ['"keepalive_timeout" directive invalid value']
    [note] = notes(verdict, "placeholder")
    assert {"__PORT__", "__Host_Name__", "%size%", "${BACKEND}"} <= set(note.partition(": ")[2].split(", "))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("add_header A b; location / { add_header C d; }", "lost here: A"),
        ("proxy_set_header Host a; location / { proxy_set_header B c; proxy_pass http://x; }", "lost here: Host"),
        ("location / { try_files $uri /x; if ($args) { set $a b; } }", '"try_files" does not apply'),
        ("location /a/ { rewrite ^/a/(.*) /$1 break; proxy_pass http://x/b/; }", '"/b/" of "proxy_pass" is not used'),
        ("location /i { alias /srv/i/; }", "alias traversal: a request for /i../"),
        ("location /i/ { alias /srv/i; }", "lacks a slash at its end"),
        ("proxy_cache z; proxy_buffering off;", "keeps nothing"),
        ("location / { valid_referers none *.x; if ($invalid_referer) { return 403; } }", "sends no Referer"),
        ("location / { valid_referers *.x; }", "keeps nobody out"),
        ("location / { root /a; } location /b { expires 1d; }", "does not hold for the other locations: /b"),
        ("server_name a.example\nroot /x;", '"root" begins a line of "server_name"'),
        ("listen 80; ssl_certificate a.pem; ssl_certificate_key a.key;", "it speaks plain HTTP"),
        ("listen 443; return 204;", "port 443 without the parameter ssl"),
        ("return 301 https://x$uri;", '"$uri" is decoded'),
        ("server_name a b a;", '"a" stands twice'),
    ],
)
def test_traps(tmp_path: Path, text: str, said: str) -> None:
    verdict = judged(tmp_path, f"server {{ {text} }}")
    assert [one for one in notes(verdict, "trap") if said in one], verdict.notes


@pytest.mark.parametrize(
    "text",
    [
        "add_header A b; location / { add_header C d; add_header A b; }",
        "add_header A b; location / { add_header_inherit merge; add_header C d; }",
        "location / { try_files $uri /x; if ($args) { return 404; } }",
        "location /a/ { rewrite ^/a/(.*) /$1 break; proxy_pass http://x; }",
        "location /i/ { alias /srv/i/; }",
        "location = /i { alias /srv/i/x; }",
        "location ~ ^/i(.*) { alias /srv/$1/; }",
        "root /a; location /b { expires 1d; }",
        "server_name a.example\n b.example;",
        "listen 80; return 301 https://x$request_uri;",
    ],
)
def test_what_is_no_trap(tmp_path: Path, text: str) -> None:
    assert notes(judged(tmp_path, f"server {{ {text} }}"), "trap") == []


def test_names_given_to_two_servers_are_told(tmp_path: Path) -> None:
    servers = "server { listen 80; server_name a; } server { listen 80; server_name a; }"
    assert notes(judged(tmp_path, servers), "warning") == ['conflicting server name "a" on 0.0.0.0:80, ignored']


def test_nobodys_code_is_run(tmp_path: Path) -> None:
    text = f"init_by_lua_block {{ io.open('{tmp_path}/ran', 'w'):close() }} init_by_lua_file /nowhere/x.lua;"
    verdict = judged(tmp_path, WHOLE.format(text + " server { location / { content_by_lua_block { ngx.say(1) } } }"))
    assert problems(verdict) == []
    assert not (tmp_path / "ran").exists()


def test_blocks_of_other_protocols_are_passed_over(tmp_path: Path) -> None:
    whole = WHOLE.format("") + " stream { server { listen 1; proxy_pass a:1; } } mail { } rtmp { server { } }"
    verdict = judged(tmp_path, whole)
    assert problems(verdict) == []
    assert [one.split('"')[1] for one in notes(verdict, "idle")] == ["stream", "mail", "rtmp"]


def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "gateway", *words], input=stdin, capture_output=True, timeout=60)


def test_the_command_prints_one_line_a_file_and_a_summary(tmp_path: Path) -> None:
    good, noted, bad = (tmp_path / name for name in ("good.conf", "noted.conf", "bad.conf"))
    good.write_text("return 204;")
    noted.write_text("server {\n  listen 80; sendfile on;\n}")
    bad.write_text("server {\n  lissen 80;\n}")
    done = run("--check", str(good), str(noted), str(bad), str(tmp_path / "none.conf"))
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"{good}: loads (server-level snippet)"
    assert lines[1] == f"{noted}: loads with notes (http-level snippet)"
    assert lines[2].startswith('    idle: "sendfile" has no effect here: ')
    assert lines[3] == f"{bad}: does not load (http-level snippet)"
    assert lines[4] == f'    error: unknown directive "lissen"; did you mean "listen"? in {bad}:2'
    assert lines[5:7] == [
        f"{tmp_path}/none.conf: does not load",
        f'    error: open() "{tmp_path}/none.conf" failed (2: No such file or directory)',
    ]
    assert lines[-1] == "4 files: 1 load, 1 load with notes, 2 do not load"
    assert run("--check", str(good), str(noted)).returncode == 0


def test_the_command_speaks_json(tmp_path: Path) -> None:
    done = run("--check", "--json", "-", stdin=b"server {\n lissen 80; }")
    told = json.loads(done.stdout)
    assert (done.returncode, told["loads"], told["files"][0]["verdict"]) == (1, False, "does not load")
    [error] = told["files"][0]["errors"]
    assert error == {
        "kind": "unknown",
        "message": 'unknown directive "lissen"',
        "file": "standard input",
        "line": 2,
        "hint": 'did you mean "listen"?',
        "more": 0,
    }


def test_options_of_a_check() -> None:
    asked = parse(["--check", "a", "--json", "-", "b"])
    assert (asked.check, asked.json, asked.files) == (True, True, ["a", "-", "b"])
    for words, message in ((["--check"], "requires file name"), (["--json"], 'requires "--check"')):
        with pytest.raises(UsageError, match=message):
            parse(words)


def test_summary_of_one_file() -> None:
    assert summary([Verdict("x")]) == "1 file: 1 load, 0 load with notes, 0 do not load"


def test_the_example_of_the_manual(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "check.md").read_text()
    conf = text.partition("```nginx\n")[2].partition("```")[0]
    expected = text.partition("$ tengine --check shop.conf\n")[2].partition("```")[0]
    (tmp_path / "shop.conf").write_text(conf)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "--check", "shop.conf"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        timeout=60,
    )
    assert (done.stdout.decode(), done.returncode) == (expected, 1)
