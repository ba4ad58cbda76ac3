"""random_index: some file of the folder, no hidden one, and each of them in the end."""

from pathlib import Path

from tests.gateway.livesite import serving

SERVER = (
    "location /pick/ { random_index on; } location /bare/ { random_index on; } location /gone/ { random_index on; }"
)


def test_a_file_by_chance(tmp_path: Path) -> None:
    files = {f"pick/{name}": name.encode() for name in ("a", "b", "c")} | {
        "pick/.hidden": b"no",
        "pick/d/x": b"no",
        "bare/d/x": b"",
    }
    with serving(tmp_path, SERVER, files=files) as site, site.connect() as client:
        seen = set()
        for _ in range(300):
            seen.add(client.get("/pick/").body)
        assert seen == {b"a", b"b", b"c"}
        assert client.get("/pick/", method="HEAD").status == 200
        assert client.get("/pick/a").body == b"a"
        assert client.get("/bare/").status == 403
        assert client.get("/gone/").status == 404
    assert "opendir()" in site.log()
