"""Passwords against what files hold of them; the expected values were made by openssl and libcrypt."""

import pytest

from gateway.http import passwords
from gateway.http.passwords import CryptError, apr1, matches, slow

LONG = b"a rather long password with more than thirty-two letters"
STORED = [
    (b"", b"$apr1$abcdefgh$L.PT565ESX4Tp2bqNs7Ie."),
    (b"sixteen letters!", b"$apr1$ab$pqNPK5AXXA3ecUKqj6vv10"),
    (LONG, b"$apr1$x$1TpwUpfD/qcLzjCKF7oLT0"),
    (b"password", b"{PLAIN}password"),
    (b"", b"{PLAIN}"),
    (b"password", b"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="),
    (b"password", b"{SSHA}yI6cZwQadOA1e+/f+T+H3eCQQhRzYWx0"),
    (b"pw", b"abzlUXK5ed5rs"),
    (b"pw", b"$5$salt$Oo0nc86Ktkc05wTAggFOZIQJhfxhAZY1mlIogZJN.i."),
    (b"pw", b"$6$salt$AkOOBO38SQQ8T8Q46KuCONe.8zg41nvCDKDq7pVQd2n2hy8sf8aR3G89VY.57up0eSIa/69odCCcLT4hx7FpW/"),
]
HERE = [(b"pw", b"$2b$04$abcdefghijklmnopqrstuuyvPXIbu7xe6/CED2DzX8z6Si09MlzlW")]  # where libcrypt is libxcrypt
BROKEN = [
    b"",
    b"x",
    b"$apr1$",
    b"$apr1$salt",
    b"$1$",
    b"{SHA}",
    b"{SHA}Zm9vCg==",
    b"{SSHA}",
    b"{SSHA}Zm9vCg==",
    b"{SSHA}___",
    b"*0",
]


@pytest.mark.parametrize(("password", "stored"), STORED)
def test_the_right_password_and_no_other(password: bytes, stored: bytes) -> None:
    assert matches(password, stored)
    for wrong in (password + b"x", password[:-1] + b"?", b"Password"):
        assert not matches(wrong, stored)
    assert not matches(password, stored + b"x") or stored.startswith(b"{PLAIN}x")


@pytest.mark.parametrize(("password", "stored"), HERE)
def test_what_the_system_knows_besides(password: bytes, stored: bytes) -> None:
    assert slow(stored)
    if passwords._crypt(password, stored).startswith(b"$2b$"):
        assert matches(password, stored)
        assert not matches(b"other", stored)


@pytest.mark.parametrize("stored", BROKEN)
def test_what_is_broken_matches_nothing(stored: bytes) -> None:
    for password in (b"", b"1", b"password"):
        assert not matches(password, stored)


def test_only_what_is_made_to_be_slow_is_slow() -> None:
    assert [slow(stored) for _password, stored in STORED] == [False] * 8 + [True] * 2
    assert not slow(b"$1$salt$x")


def test_a_salt_of_apr1_has_eight_letters_at_most() -> None:
    assert apr1(b"x", b"12345678").startswith(b"$apr1$12345678$")
    assert matches(b"", b"$apr1$abcdefgh$L.PT565ESX4Tp2bqNs7Ie.")


def test_a_system_without_crypt_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords._crypt_r.cache_clear()
    monkeypatch.setattr(passwords, "_LIBRARIES", ("libnosuch.so.1",))
    with pytest.raises(CryptError, match="libcrypt"):
        matches(b"x", b"abzlUXK5ed5rs")
    passwords._crypt_r.cache_clear()
