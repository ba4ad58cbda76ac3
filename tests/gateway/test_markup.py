"""The scanners of HTML and CSS: which URLs they find, that all else passes unchanged, and that cuts do not matter."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.http import markup
from gateway.http.markup import Css, Html


def marked(url: bytes) -> bytes:
    return b"[" + url + b"]"


def rewritten(kind: type[Html] | type[Css], data: bytes, cuts: list[int] | None = None) -> bytes:
    scanner = Html(marked, lambda url: None) if kind is Html else Css(marked)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    return b"".join(scanner.feed(data[a:b]) + scanner.flush() for a, b in itertools.pairwise(edges)) + scanner.finish()


PAGES = {
    b"<script src=a.js></script>": b"<script src=[a.js]></script>",
    b'<SCRIPT defer SRC = "a.js" >': b'<SCRIPT defer SRC = "[a.js]" >',
    b"<img src='a b.png' alt='>'>": b"<img src='[a b.png]' alt='>'>",
    b'<img alt="<img src=x>" src=y/>': b'<img alt="<img src=x>" src=[y/]>',
    b"<link rel=stylesheet href=a.css>": b"<link rel=stylesheet href=[a.css]>",
    b'<link href=a.png rel="Shortcut ICON">': b'<link href=[a.png] rel="Shortcut ICON">',
    b"<link rel=canonical href=a.html>": None,
    b"<link rel=modulepreload href=a.js>": None,
    b"<a href=a.pdf>": None,
    b"<iframe src=a.html></iframe>": None,
    b"<video poster=a.png src=b.mp4>": b"<video poster=[a.png] src=[b.mp4]>",
    b"<svg><use href='a.svg#x'/><image xlink:href=b.png>": b"<svg><use href='[a.svg#x]'/><image xlink:href=[b.png]>",
    b'<img srcset="a.png 1x, b,c.png 2x,d.png">': b'<img srcset="[a.png] 1x, [b,c.png] 2x,[d.png]">',
    b'<img srcset=" , ,a.png,  b.png 100w">': b'<img srcset=" , ,[a.png],  [b.png] 100w">',
    b'<link rel=preload imagesrcset="a.png 1x">': b'<link rel=preload imagesrcset="[a.png] 1x">',
    b'<p style="a:url(b.png)">': b'<p style="a:url([b.png])">',
    b"<style>a{b:url(c.png)}</style><p>url(d.png)": b"<style>a{b:url([c.png])}</style><p>url(d.png)",
    b"<style>/* </style ><img src=a>": b"<style>/* </style ><img src=[a]>",
    b"<script>'<img src=a>'</script><img src=b>": b"<script>'<img src=a>'</script><img src=[b]>",
    b"<title><img src=a></title><textarea><img src=b></TEXTAREA\n><img src=c>": (
        b"<title><img src=a></title><textarea><img src=b></TEXTAREA\n><img src=[c]>"
    ),
    b"<!-- <img src=a> --><img src=b>": b"<!-- <img src=a> --><img src=[b]>",
    b"<!--><img src=a><!---><img src=b><!-- x --!><img src=c>": (
        b"<!--><img src=[a]><!---><img src=[b]><!-- x --!><img src=[c]>"
    ),
    b"<!doctype html><?x <img src=a?><img src=b>": b"<!doctype html><?x <img src=a?><img src=[b]>",
    b"</ <img src=a></p src=b>1<2 <img src=c": None,
    b"<img src><img src=''>": b"<img src><img src='[]'>",
    b"<imgsrc=a><img / src=b>": b"<imgsrc=a><img / src=[b]>",
    b"<img data-src=a srcx=b>": None,
}
SHEETS = {
    b"a{b:url(c.png)}": b"a{b:url([c.png])}",
    b"a{b:URL( 'c d.png' )}": b"a{b:URL( '[c d.png]' )}",
    b'@import "a.css";@IMPORT url(b.css) screen;': b'@import "[a.css]";@IMPORT url([b.css]) screen;',
    b"@import'a.css';": b"@import'[a.css]';",
    b"/* url(a) */b{c:url(d)}": b"/* url(a) */b{c:url([d])}",
    b'a::after{content:"url(b)";c:url(d)}': b'a::after{content:"url(b)";c:url([d])}',
    b"a{content:'\\'url(b)'}": None,
    b"a{b:my-url(c);d:-url(e);f:\\url(g)}": None,
    b"a{b:url(c\\)d)}": None,
    b"a{b:url(c d);e:url(f)}": b"a{b:url(c d);e:url([f])}",
    b"a{b:'unclosed\n;c:url(d)}": b"a{b:'unclosed\n;c:url([d])}",
    b"@imported 'a'; @import": None,
    b"a{b:url(": None,
    b"a{b:url(c.png": None,
    b"": b"",
}


@pytest.mark.parametrize("page", PAGES, ids=repr)
def test_html(page: bytes) -> None:
    wanted = PAGES[page]
    assert rewritten(Html, page) == (page if wanted is None else wanted)


@pytest.mark.parametrize("sheet", SHEETS, ids=repr)
def test_css(sheet: bytes) -> None:
    wanted = SHEETS[sheet]
    assert rewritten(Css, sheet) == (sheet if wanted is None else wanted)


@pytest.mark.parametrize(("kind", "texts"), [(Html, PAGES), (Css, SHEETS)], ids=["html", "css"])
def test_byte_by_byte(kind: type[Html] | type[Css], texts: dict[bytes, bytes | None]) -> None:
    for text in [*texts, b"".join(texts)]:
        assert rewritten(kind, text, list(range(len(text)))) == rewritten(kind, text)


TOKENS = [
    *(b"<", b">", b"<img src=", b'"', b"'", b"a.png", b" ", b"/", b"<!--", b"-->", b"--!>", b"<style>", b"</style>"),
    *(b"</style", b"<script", b"</script", b"url(", b")", b"@import", b"\\", b"\n", b"/*", b"*/", b"=", b"srcset="),
    *(b",", b"-", b"!", b"?", b"x", b"<base href=", b"style=", b"title", b"\xc3\xa9", b"\0"),
]
texts = st.one_of(st.lists(st.sampled_from(TOKENS), max_size=40).map(b"".join), st.binary(max_size=200))


@settings(max_examples=500, deadline=None)
@given(data=texts, cuts=st.lists(st.integers(0, 400), max_size=10))
@example(data=b'<img srcset=",">', cuts=[])
def test_cuts_do_not_matter_and_all_else_passes(data: bytes, cuts: list[int]) -> None:
    for kind in (Html, Css):
        whole = rewritten(kind, data)
        assert rewritten(kind, data, cuts) == whole
        assert whole.replace(b"[", b"").replace(b"]", b"") == data.replace(b"[", b"").replace(b"]", b"")


@pytest.mark.parametrize("kind", [Html, Css])
def test_a_token_that_is_too_long_passes(kind: type[Html] | type[Css], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markup, "LONGEST", 50)
    data = {Html: b"<img alt='%b' src=a><img src=b>", Css: b"url('%b')url(b)"}[kind] % (b"x" * 60)
    wanted = {Html: b"<img alt='%b' src=a><img src=[b]>", Css: b"url('%b')url([b])"}[kind] % (b"x" * 60)
    for cuts in ([], list(range(len(data))), [20], [55], [70]):
        assert rewritten(kind, data, cuts) == wanted


def test_the_first_base_counts() -> None:
    told: list[bytes] = []
    scanner = Html(marked, told.append)
    scanner.feed(b"<base target=x><base href='/a/'><base href='/b/'>")
    assert told == [b"/a/"]


@pytest.mark.parametrize("kind", [Html, Css])
def test_nothing_is_held_back_without_reason(kind: type[Html] | type[Css]) -> None:
    scanner = Html(marked, lambda url: None) if kind is Html else Css(marked)
    text = b"a{b:c} and no more; " * 5
    assert len(scanner.feed(text)) >= len(text) - 7
