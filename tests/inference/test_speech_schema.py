"""Fields of a request: what is missing, of the wrong type or out of range is refused by name; 400 is the unreadable."""

import json

import pytest
from flask.testing import FlaskClient


def refused(http: FlaskClient, body: object, status: int = 422) -> tuple[str, str | None]:
    answer = http.post("/generate_audio", data=json.dumps(body), content_type="application/json")
    assert answer.status_code == status, answer.get_data(as_text=True)
    found = answer.get_json()["error"]
    return found["code"], found["field"]


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"text": ""}, "required", "text"),
        ({"text": None}, "required", "text"),
        ({"text": " \n"}, "required", "text"),
        ({"text": 5}, "invalid", "text"),
        ({"text": "x" * 2001}, "too_long", "text"),
        ({"text": "a\0b"}, "invalid_character", "text"),
        ({"text": "a\ud800"}, "invalid_character", "text"),
        ({"seed": 0}, "out_of_range", "seed"),
        ({"seed": 100_000_001}, "out_of_range", "seed"),
        ({"seed": -1}, "out_of_range", "seed"),
        ({"seed": 1.5}, "invalid", "seed"),
        ({"seed": True}, "invalid", "seed"),
        ({"seed": "42"}, "invalid", "seed"),
        ({"seed": [1]}, "invalid", "seed"),
        ({"speed": 0.4}, "out_of_range", "speed"),
        ({"speed": 2.1}, "out_of_range", "speed"),
        ({"speed": "1"}, "invalid", "speed"),
        ({"speed": False}, "invalid", "speed"),
        ({"language": "de"}, "out_of_range", "language"),
        ({"language": 1}, "invalid", "language"),
        ({"instruct_text": "x" * 201}, "too_long", "instruct_text"),
        ({"instruct_text": ["happy"]}, "invalid", "instruct_text"),
        ({"prompt_text": {}}, "invalid", "prompt_text"),
        ({"prompt_text": "x" * 1001}, "too_long", "prompt_text"),
        ({"prompt_audio": 7}, "invalid", "prompt_audio"),
        ({"prompt_audio": ["a.wav"]}, "invalid", "prompt_audio"),
    ],
)
def test_refused_fields(http: FlaskClient, fields: dict[str, object], code: str, field: str) -> None:
    assert refused(http, {"text": "one"} | fields) == (code, field)


@pytest.mark.parametrize(
    "fields",
    [
        {"seed": 1},
        {"seed": 100_000_000},
        {"seed": 42.0},
        {"speed": 0.5},
        {"speed": 2},
        {"language": "auto"},
        {"language": "EN"},
        {"language": "en_US"},
        {"prompt_audio": ""},
        dict.fromkeys(("prompt_audio", "prompt_text", "instruct_text", "seed", "speed", "language")),
        {"text": "x" * 2000},
        {"text": "你好\n\tworld"},
    ],
)
def test_accepted_fields(http: FlaskClient, fields: dict[str, object]) -> None:
    assert http.post("/generate_audio", json={"text": "one"} | fields).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b'"text"', b"null", b"\xff\xfe", b'{"text": NaN}', b"[" * 99_999, b'{"a": %s}' % (b"9" * 5000)],
)
def test_unreadable_json_is_400(http: FlaskClient, body: bytes) -> None:
    answer = http.post("/generate_audio", data=body, content_type="application/json")
    assert answer.status_code == 400
    assert answer.get_json()["error"]["code"] == "malformed_json"


def test_unknown_fields_are_named_whatever_they_are_called(http: FlaskClient) -> None:
    body = b'{"text": "one", "\\ud800\\u0000": 1, "spead": 2}'
    told = http.post("/infer", data=body, content_type="application/json").get_json()["warnings"]
    assert len(told) == 2 and any("spead" in word for word in told)


def test_other_bodies_are_415(http: FlaskClient) -> None:
    for kind in ("text/plain", "audio/wav", ""):
        answer = http.post("/generate_audio", data=b"x", content_type=kind)
        assert answer.status_code == 415
        assert answer.get_json()["error"]["code"] == "unsupported_media_type"


def test_forms_judge_numbers_like_json(http: FlaskClient) -> None:
    wrong = (("seed", "x"), ("seed", "0"), ("seed", "1.5"), ("speed", "fast"), ("speed", "nan"), ("speed", "inf"))
    for field, word in wrong:
        answer = http.post("/generate_audio", data={"text": "one", field: word})
        assert answer.status_code == 422 and answer.get_json()["error"]["field"] == field
    assert http.post("/generate_audio", data={"text": "one", "seed": "5"}).headers["X-Seed"] == "5"
    broken = http.post("/generate_audio", data=b"--x\r\nnonsense", content_type="multipart/form-data; boundary=x")
    assert broken.status_code in (400, 422)


def test_the_mission_example_fields_are_all_known(http: FlaskClient) -> None:
    body = {
        "prompt_text": "你好，我是科哥",
        "text": "欢迎使用CosyVoice3声音克隆系统",
        "instruct_text": "用兴奋的语气说这句话",
        "seed": 42,
    }
    told = http.post("/infer", data=json.dumps(body), content_type="application/json").get_json()
    assert told["seed"] == 42
    assert not any("not known" in word for word in told["warnings"])
