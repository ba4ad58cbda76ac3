"""The echo module beyond what a real nginx shows at rest: what runs beside what, and how large output is given out."""

from pathlib import Path

from tests.gateway.livesite import serving


def test_subrequests_run_beside_the_commands_that_follow(tmp_path: Path) -> None:
    """Were they run one after the other, the timer would have run for as long as both sleep."""
    conf = (
        "default_type text/plain; location /main { echo_reset_timer; echo_location_async /a; echo_location_async /b;"
        'echo "$echo_timer_elapsed"; } location /a { echo_sleep 0.2; echo a; } location /b { echo_sleep 0.1; echo b; }'
    )
    with serving(tmp_path, conf) as site:
        *texts, elapsed = site.get("/main").body.split()
        assert texts == [b"a", b"b"] and float(elapsed) < 0.1


def test_output_before_a_sleep_is_sent_before_it(tmp_path: Path) -> None:
    with serving(tmp_path, "location / { echo first; echo_flush; echo_sleep 30; echo never; }") as site:
        client = site.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while b"first\n" not in client.buffer:
            assert client.more()
        client.close()


def test_much_of_one_text_is_not_made_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, 'location / { echo_duplicate 10_000_000 "0123456789"; }') as site:
        client = site.connect(window=4096)
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while len(client.buffer) < 1_000_000:
            assert client.more()
        client.close()


def test_a_loop_over_nothing_and_a_loop_over_many(tmp_path: Path) -> None:
    conf = (
        "location / { echo_foreach_split , $arg_l; echo -n <$echo_it>; echo_end;"
        "echo_foreach_split . a.b; echo $echo_it; echo_end; }"
    )
    with serving(tmp_path, conf) as site:
        assert site.get("/?l=").body == b"a\nb\n"
        assert site.get("/?l=" + ",".join("xyz")).body == b"<x><y><z>a\nb\n"


def test_errors_before_output_are_answers_and_after_it_ends(tmp_path: Path) -> None:
    conf = (
        "location /before { echo_duplicate x y; }"
        "location /after { echo a; echo_flush; echo_sleep 0.001; echo_duplicate x y; }"
    )
    with serving(tmp_path, conf) as site:
        assert site.get("/before").status == 500
        answer = site.get("/after")
        assert answer.status == 200 and not answer.whole
        assert 'invalid size specified: "x"' in site.log()
