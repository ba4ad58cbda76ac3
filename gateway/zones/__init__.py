"""Zones: state that all workers share, each in an LMDB file on a memory file system.

A directive that declares a zone calls `declare` while the configuration is read, one that uses it calls `find`. The
master makes the folder for the files (`gateway.zones.folder`); every worker opens them for itself (`start`), for an
open LMDB environment must not be carried across a fork. A zone lives on over a reload if its name, size and use stay
the same. LMDB commits by writing new pages and then one page that points to them, under a lock that is freed when its
holder dies: a worker killed at any moment leaves the zone as it was after the last commit.
"""

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.config.args import bytes_of
from gateway.config.schema import ConfigError, Place

if TYPE_CHECKING:
    from gateway.zones.presence import Presence
    from gateway.zones.store import Store

WORKER = "worker"  # in a site's `shared`: the running number of this worker
_LEAST = 8 * os.sysconf("SC_PAGESIZE")


class ZoneError(Exception):
    """A zone cannot take or give a value: it is full, or its file system is."""


@dataclass(slots=True, eq=False)
class Zone:
    """One zone: `size` in bytes as declared, `kind` the directive that declares such zones, `key` what it counts by."""

    name: str
    size: int
    kind: str
    key: str
    path: str = ""  # of its file: set by the master
    direct: bool = True  # the memory file system has room for the whole file: it may be written to in place
    store: "Store" = None  # type: ignore[assignment]  # set in each worker


class _Zones(dict[str, Zone]):
    """The zones of a site, by name; its own key in the site's `shared`."""

    presence: "Presence | None" = None


def file_size(size: int) -> int:
    """How large the file of a zone may become: every entry full, every page half full, and pages in flight."""
    return 2 * size + (1 << 18)


def milliseconds() -> int:
    """The time that values bear: of a clock that all processes share and nobody sets."""
    return time.monotonic_ns() // 1_000_000


def all_of(shared: dict[Any, Any]) -> _Zones:
    """The zones that a site has declared."""
    zones = shared.get(_Zones)
    if zones is None:
        zones = shared[_Zones] = _Zones()
    return zones


def size_of(word: str, place: Place | None) -> tuple[str, int]:
    """Name and bytes of `zone=name:size`; the name may be empty. Raises ConfigError in nginx's words."""
    name, colon, text = word.removeprefix("zone=").partition(":")
    try:
        size = bytes_of(text) if colon else -1
    except ValueError:
        size = -1
    if size < 0:
        raise ConfigError(f'invalid zone size "{word}"', place)
    if size < _LEAST:
        raise ConfigError(f'zone "{word}" is too small', place)
    return name, size


def declare(shared: dict[Any, Any], zone: Zone, place: Place | None) -> Zone:
    """Add a zone to a site. Raises ConfigError if its name is taken."""
    zones = all_of(shared)
    known = zones.get(zone.name)
    if known is not None:
        if known.kind != zone.kind:
            said = f'the shared memory zone "{zone.name}" is already declared for a different use'
        elif known.size != zone.size:
            said = f'the size {zone.size} of shared memory zone "{zone.name}"'
            said += f" conflicts with already declared size {known.size}"
        else:
            said = f'{zone.kind} "{zone.name}" is already bound to key "{known.key}"'
        raise ConfigError(said, place)
    zones[zone.name] = zone
    return zone


def find(shared: dict[Any, Any], name: str, kind: str, place: Place | None) -> Zone:
    """The zone that a directive names. Raises ConfigError if there is none of its kind."""
    zone = all_of(shared).get(name)
    if zone is None:
        raise ConfigError(f'zero size shared memory zone "{name}"')
    if zone.kind != kind:
        raise ConfigError(f'the shared memory zone "{name}" is already declared for a different use', place)
    return zone


def start(shared: dict[Any, Any]) -> None:
    """In a worker: open all zones, once. Raises ZoneError."""
    zones = all_of(shared)
    if not zones or zones.presence is not None:
        return
    from gateway.zones.presence import Presence
    from gateway.zones.store import Store

    folder = os.path.dirname(next(iter(zones.values())).path)
    zones.presence = presence = Presence(os.path.join(folder, "workers"), shared.get(WORKER, 0))
    for zone in zones.values():
        zone.store = Store(zone.path, zone.size, presence, direct=zone.direct)
