"""Say how long the answer to a URI with a fingerprint may be kept (`fingerprint`, rows in http/assets).

For ever where the hash is that of the bytes being sent; else `no-cache`: the present content, to be asked for again. It
replaces what `expires` and `add_header Cache-Control` said, so its filter comes after theirs.
"""

from gateway.config.schema import block
from gateway.http.assets import WANTED, Asset, Fingerprint, assets_of, scanning
from gateway.http.message import FileBody, Filter, Request, Response
from gateway.http.paths import mime
from gateway.module import Build, Module

IMMUTABLE, PRESENT = b"public, max-age=31536000, immutable", b"no-cache"
REPLACED = (b"cache-control", b"expires")


@block
class Immutable:
    """No directive of its own."""


def marking(_conf: Immutable, build: Build) -> Filter | None:
    """Mark answers to URIs with a fingerprint."""
    conf = build.conf(Fingerprint)
    if not conf.fingerprint:
        return None
    assets, scan = assets_of(build.shared), scanning(conf, mime(build))

    def mark(request: Request, response: Response) -> None:
        wanted = request.note(WANTED)
        if wanted is None or response.status not in (200, 206, 304):
            return
        uri = request.uri
        asset = assets.of(request, request.location.mapping(request), uri, scan(uri))
        kept = asset is not None and asset.digest == wanted and _is_now(asset, response)
        response.fields = [item for item in response.fields if item[0].lower() not in REPLACED]
        response.fields.append((b"Cache-Control", IMMUTABLE if kept else PRESENT))

    return mark


def _is_now(asset: Asset, response: Response) -> bool:
    """Whether what the client gets, or has, is the asset."""
    body = response.body
    if isinstance(body, FileBody) and not response.changed:
        return body is asset.body if asset.body is not None else asset.is_of(body)
    return response.status == 304 and asset.stamp is not None and response.find(b"etag") == asset.etag()


module = Module(name="immutable", conf=Immutable, filter=marking)
