"""The speech routes end to end inside one process: every way to send a prompt, every header, every refusal's shape."""

import base64
import io
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from inference.runner import Runner
from inference.settings import Settings
from tests.inference.conftest import RATE, ToneEngine, wait_until, wav

NAME = re.compile(r"output_\d{8}_\d{6}(_\d+)?\.wav")


def say(http: FlaskClient, **fields: object) -> TestResponse:
    return http.post("/generate_audio", json={"text": "one two three", "seed": 42} | fields)


def error(answer: TestResponse, status: int) -> dict[str, str]:
    assert answer.status_code == status, answer.get_data(as_text=True)
    assert answer.mimetype == "application/json"
    assert answer.headers["X-Request-Id"]
    found = answer.get_json()
    assert set(found) == {"error"} and set(found["error"]) == {"code", "message", "field"}
    assert found["error"]["code"] and found["error"]["message"]
    shown: dict[str, str] = found["error"]
    return shown


def test_wav_and_headers(http: FlaskClient, engine: ToneEngine, settings: Settings) -> None:
    answer = say(http)
    assert answer.status_code == 200
    assert answer.mimetype == "audio/wav"
    assert answer.data[:4] == b"RIFF"
    assert int.from_bytes(answer.data[24:28], "little") == RATE
    assert int.from_bytes(answer.data[34:36], "little") == 16
    assert len(answer.data) == 44 + 3 * 2400 * 2
    assert answer.headers["X-Seed"] == "42"
    assert answer.headers["X-Engine"] == "tone"
    assert answer.headers["X-Audio-Duration"] == "0.300"
    assert float(answer.headers["X-RTF"]) >= 0
    assert answer.headers["Cache-Control"] == "no-store"
    assert "X-Warnings" not in answer.headers
    name = NAME.search(answer.headers["Content-Disposition"])
    assert name is not None
    assert answer.headers["Content-Location"] == f"/outputs/{name[0]}"
    assert (settings.output_dir / name[0]).read_bytes() == answer.data
    assert engine.heard[0].prompt is None


def test_same_seed_same_bytes_and_a_seed_is_made_up_and_told(http: FlaskClient) -> None:
    assert say(http).data == say(http).data
    assert say(http, seed=43).data != say(http).data
    chosen = say(http, seed=None)
    assert 1 <= int(chosen.headers["X-Seed"]) <= 100_000_000
    assert say(http, seed=int(chosen.headers["X-Seed"])).data == chosen.data


def test_infer_gives_the_address_and_the_rest(http: FlaskClient) -> None:
    answer = http.post("/infer", json={"text": "one two", "seed": 7, "instruct_text": "用四川话说"})
    told = answer.get_json()
    assert told["url"] == f"/outputs/{told['name']}" and NAME.fullmatch(told["name"])
    assert (told["seed"], told["engine"], told["sample_rate"], told["duration"]) == (7, "tone", RATE, 0.2)
    assert told["warnings"] == ["方言 is not possible: 四川话, spoken as zh"]
    assert told["request_id"] == answer.headers["X-Request-Id"]
    assert answer.headers["X-Seed"] == "7"
    assert http.get(told["url"]).data[:4] == b"RIFF"


def test_warnings_header_is_ascii_and_can_be_read_back(http: FlaskClient) -> None:
    answer = say(http, instruct_text="四川", prompt_text="你好", surprise=1)
    header = answer.headers["X-Warnings"]
    assert header.isascii()
    words = [unquote(word) for word in header.split(", ")]
    assert "方言 is not possible: 四川话, spoken as zh" in words
    assert any("surprise" in word for word in words) and any("prompt_text" in word for word in words)


def test_warnings_header_stays_short(http: FlaskClient) -> None:
    answer = say(http, **{f"field{number}": 1 for number in range(200)})
    assert answer.status_code == 200
    assert len(answer.headers["X-Warnings"]) < 1600
    assert re.search(r"and \d+ more$", answer.headers["X-Warnings"])


def test_two_results_in_one_second_keep_both(http: FlaskClient, settings: Settings) -> None:
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda seed: say(http, seed=seed), range(1, 3)))
    answers += [say(http, seed=seed) for seed in range(3, 7)]
    names = [answer.headers["Content-Location"].removeprefix("/outputs/") for answer in answers]
    assert len(set(names)) == 6
    for name, answer in zip(names, answers, strict=True):
        assert (settings.output_dir / name).read_bytes() == answer.data


def test_prompt_by_path(http: FlaskClient, engine: ToneEngine, settings: Settings) -> None:
    (settings.prompt_dir / "sub").mkdir()
    for name in ("你好.wav", "sub/b.wav"):
        (settings.prompt_dir / name).write_bytes(wav())
        assert say(http, prompt_audio=name, prompt_text="你好").status_code == 200
        assert say(http, prompt_audio=str(settings.prompt_dir / name)).status_code == 200
    first, second = engine.heard[0].prompt, engine.heard[1].prompt
    assert first is not None and second is not None
    assert first.text == "你好" and first.sample_rate == RATE and len(first.samples) == 4 * RATE
    assert first.digest == second.digest


def test_prompt_in_base64_and_data_url(http: FlaskClient, engine: ToneEngine) -> None:
    words = base64.b64encode(wav()).decode()
    urlsafe = base64.urlsafe_b64encode(wav()).decode().rstrip("=")
    for sent in (words, urlsafe, f"data:audio/wav;base64,{words}", f"data:audio/webm;codecs=opus;base64,{words}"):
        assert say(http, prompt_audio=sent).status_code == 200
    assert len({heard.prompt.digest for heard in engine.heard if heard.prompt}) == 1
    assert error(say(http, prompt_audio="data:audio/wav;base64,@@@@"), 422)["field"] == "prompt_audio"
    assert error(say(http, prompt_audio="data:audio/wav,abc"), 422)["field"] == "prompt_audio"
    assert error(say(http, prompt_audio="A" * 257), 422)["code"] == "prompt_base64"
    assert error(say(http, prompt_audio="AAAA" * 100), 415)["code"] == "prompt_type"


def test_prompt_by_upload(http: FlaskClient, engine: ToneEngine) -> None:
    form = {"text": "one", "seed": "9", "speed": "2.0", "language": "zh-CN"}
    answer = http.post("/generate_audio", data=form | {"prompt_audio": (io.BytesIO(wav()), "../../x.wav")})
    assert answer.status_code == 200 and answer.headers["X-Seed"] == "9"
    heard = engine.heard[0]
    assert heard.prompt is not None and heard.speed == 2.0 and heard.language == "zh"
    empty = {"text": "one", "prompt_audio": (io.BytesIO(b""), "")}
    assert http.post("/infer", data=empty).status_code == 200
    assert engine.heard[1].prompt is None
    zero = {"text": "one", "prompt_audio": (io.BytesIO(b""), "a.wav")}
    assert error(http.post("/infer", data=zero), 422)["code"] == "prompt_empty"
    assert http.post("/infer", data={"text": "one", "seed": "", "speed": ""}).status_code == 200


def test_uploads_too_large(http: FlaskClient) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="prompt_audio"; filename="a.wav"\r\n\r\n'
    big = head + b"\0" * (10 * 1024 * 1024 + 1) + b"\r\n--x--\r\n"
    answer = http.post("/infer", data=big, content_type="multipart/form-data; boundary=x")
    assert error(answer, 413)["field"] == "prompt_audio"
    words = base64.b64encode(b"\0" * (10 * 1024 * 1024 + 3)).decode()
    assert error(say(http, prompt_audio=words), 413)["field"] == "prompt_audio"
    assert error(say(http, prompt_audio="A" * 20_000_000), 413)["code"] == "too_large"


def test_the_mission_example_path_is_answered_with_the_remedy(http: FlaskClient) -> None:
    found = error(say(http, prompt_audio="/path/to/sample.wav"), 403)
    assert found["field"] == "prompt_audio" and "PROMPT_DIR" in found["message"]


def test_paths_that_lead_out(http: FlaskClient, settings: Settings, tmp_path: Path) -> None:
    outside = tmp_path / "secret.wav"
    outside.write_bytes(wav())
    (settings.prompt_dir / "link.wav").symlink_to(outside)
    (settings.prompt_dir / "dir").symlink_to(tmp_path)
    (settings.prompt_dir / "inside.wav").write_bytes(wav())
    (settings.prompt_dir / "alias.wav").symlink_to("inside.wav")
    Path(f"{settings.prompt_dir}-other").mkdir()
    Path(f"{settings.prompt_dir}-other/x.wav").write_bytes(wav())
    for name in ("../secret.wav", "sub/../../secret.wav", str(outside), "link.wav", "dir/secret.wav", "/etc/passwd",
                 "/dev/zero", ".", "..", f"{settings.prompt_dir}-other/x.wav", "../prompts-other/x.wav"):  # fmt: skip
        assert error(say(http, prompt_audio=name), 403)["code"] == "prompt_path_forbidden"
    assert say(http, prompt_audio="alias.wav").status_code == 200


def test_paths_that_are_no_recordings(http: FlaskClient, settings: Settings) -> None:
    os.mkfifo(settings.prompt_dir / "pipe.wav")
    (settings.prompt_dir / "folder.wav").mkdir()
    (settings.prompt_dir / "text.wav").write_text("not audio")
    assert error(say(http, prompt_audio="pipe.wav"), 422)["code"] == "prompt_unreadable"
    assert error(say(http, prompt_audio="folder.wav"), 422)["code"] == "prompt_unreadable"
    assert error(say(http, prompt_audio="missing.wav"), 422)["code"] == "prompt_not_found"
    assert error(say(http, prompt_audio="text.wav/x"), 422)["code"] == "prompt_unreadable"
    assert error(say(http, prompt_audio="text.wav"), 415)["code"] == "prompt_type"
    assert error(say(http, prompt_audio="a\0b"), 422)["field"] == "prompt_audio"
    assert error(say(http, prompt_audio="x." * 3000), 422)["field"] == "prompt_audio"
    assert error(say(http, prompt_audio="https://example.com/a.wav"), 422)["code"] == "prompt_source"


def test_prompt_warnings_reach_the_client(http: FlaskClient) -> None:
    words = base64.b64encode(wav(rate=8000)).decode()
    told = http.post("/infer", json={"text": "one", "prompt_audio": words, "prompt_text": "x" * 500}).get_json()
    assert len(told["warnings"]) == 2 and "8000 Hz" in told["warnings"][0] and "prompt_text" in told["warnings"][1]


def test_engine_refusals_and_failures(http: FlaskClient) -> None:
    refused = error(say(http, text="{refuse}"), 422)
    assert (refused["code"], refused["field"]) == ("bad_pinyin", "text")
    assert error(say(http, text="{fail}"), 500)["code"] == "engine_failed"
    assert error(say(http, text="{nan}"), 500)["code"] == "engine_nan"
    assert error(say(http, text="{silent}"), 422)["code"] == "nothing_to_say"
    assert say(http).status_code == 200


def test_full_queue_is_told_at_once(http: FlaskClient, engine: ToneEngine, runner: Runner) -> None:
    with ThreadPoolExecutor(3) as pool:
        held = pool.submit(say, http, text="{hold}")
        assert engine.holding.wait(20)
        waiting = [pool.submit(say, http, text="one") for _ in range(2)]
        wait_until(lambda: runner.status()["queued"] == 2)
        answer = say(http, text="one")
        assert error(answer, 429)["code"] == "queue_full"
        assert int(answer.headers["Retry-After"]) >= 1
        engine.release.set()
        assert all(done.result(20).status_code == 200 for done in [held, *waiting])
    assert say(http).status_code == 200


def test_outputs_ranges_conditions_and_names(http: FlaskClient) -> None:
    url = say(http).headers["Content-Location"]
    whole = http.get(url)
    assert whole.headers["Accept-Ranges"] == "bytes"
    assert whole.headers["Cache-Control"] == "private, max-age=3600, immutable"
    assert whole.content_length == len(whole.data)
    part = http.get(url, headers={"Range": "bytes=4-11"})
    assert (part.status_code, part.data) == (206, whole.data[4:12])
    assert part.headers["Content-Range"] == f"bytes 4-11/{len(whole.data)}"
    assert http.get(url, headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
    assert http.get(url, headers={"If-Modified-Since": whole.headers["Last-Modified"]}).status_code == 304
    assert error(http.get(url, headers={"Range": "bytes=9999999-"}), 416)["code"] == "range_not_satisfiable"
    head = http.head(url)
    assert head.status_code == 200 and head.content_length == len(whole.data)
    for name in ("missing.wav", ".partial-0123", "..%2f..%2fx.wav", "a/b.wav", "%00.wav", "x" * 300 + ".wav"):
        error(http.get(f"/outputs/{name}"), 404)


def test_storage_trouble_is_no_recording(http: FlaskClient, settings: Settings) -> None:
    settings.output_dir.write_text("a file where the folder should be")
    assert error(say(http), 507)["code"] == "storage_failed"


def test_errors_of_the_framework_have_the_same_shape(http: FlaskClient) -> None:
    assert error(http.get("/nowhere"), 404)["code"] == "not_found"
    wrong = http.get("/generate_audio")
    assert error(wrong, 405)["code"] == "method_not_allowed" and "POST" in wrong.headers["Allow"]


def test_no_request_writes_its_own_lines_into_the_log(http: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "inference"):
        http.get("/a%0a2026-01-01 [INFO] forged")
        say(http, **{"x\nforged": 1})
    assert caplog.messages and not any("\n" in line for line in caplog.messages)


def test_request_ids_are_kept_where_they_are_harmless(http: FlaskClient) -> None:
    assert http.get("/healthz", headers={"X-Request-Id": "abc-1"}).headers["X-Request-Id"] == "abc-1"
    assert http.get("/healthz", headers={"X-Request-Id": "a b"}).headers["X-Request-Id"] != "a b"
    assert http.get("/healthz", headers={"X-Request-Id": "x" * 100}).headers["X-Request-Id"] != "x" * 100


def test_the_engine_lives_in_the_runner(http: FlaskClient, engine: ToneEngine) -> None:
    assert engine.loaded_in == "runner" != threading.current_thread().name


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/style.css"])
def test_page_and_its_parts_are_served(http: FlaskClient, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 200 and answer.data
    answer.close()
