"""The folder of the zones' files: made, swept and removed by the master.

Each master has a folder of its own on the memory file system and holds a lock on it, which its workers inherit; a
folder that nobody holds was left by a master that was killed, and the next one to start removes it.
"""

import contextlib
import fcntl
import os
from typing import Any

from gateway import log
from gateway.config.schema import ConfigError
from gateway.zones import Zone, all_of, file_size

MEMORY = "/dev/shm"  # Linux's memory file system for everyone
PREFIX = "tengine-zones-"
_FRESH = ".tengine-zones-"  # until it is locked


class _Folder:
    """What the master knows: its folder, if it has made one, and the zones in force."""

    path = ""
    held = -1
    zones: dict[str, Zone] = {}  # noqa: RUF012  # replaced whole, never changed


def parent() -> str:
    """Where zones may live: in memory if there is a memory file system."""
    if os.access(MEMORY, os.W_OK | os.X_OK):
        return MEMORY
    from tempfile import gettempdir

    return gettempdir()


def prepare(shared: dict[Any, Any], owner: tuple[int, int] | None) -> None:
    """Give every zone of a site its file. `owner` is the user and group of the workers, None if they stay who we are.

    Raises ConfigError. Nothing happens, and nothing is imported, for a site without zones.
    """
    zones = all_of(shared)
    if not zones:
        return
    import lmdb  # noqa: F401, TID251  # here, before the fork, its memory is shared by all workers

    for zone in zones.values():
        _same_key(zone)
    try:
        if not os.path.isdir(_Folder.path):  # at first, or when someone has tidied up
            remove()
            _make()
        if owner is not None:
            os.chown(_Folder.path, *owner)
        stat = os.statvfs(_Folder.path)
    except OSError as error:
        raise ConfigError(f'zones: "{_Folder.path or parent()}" cannot be used {log.reason(error)}') from None
    room = stat.f_bavail * stat.f_frsize
    direct = sum(file_size(zone.size) for zone in zones.values()) <= room
    if not direct:
        log.main.write(
            log.WARN, f'little room in "{_Folder.path}": zones are written more slowly, and may be full early'
        )
    for zone in zones.values():
        zone.path, zone.direct = os.path.join(_Folder.path, _file(zone)), direct


def _same_key(zone: Zone) -> None:
    old = _Folder.zones.get(_file(zone))
    if old is not None and old.key != zone.key:
        used = zone.kind.removesuffix("_zone") if zone.kind == "limit_req_zone" else zone.kind
        raise ConfigError(
            f'{used} "{zone.name}" uses the "{zone.key}" key while previously it used the "{old.key}" key'
        )


def settle(shared: dict[Any, Any]) -> None:
    """The site is in force: remove the files of zones that it does not have. Who has them open still may use them."""
    zones = {_file(zone): zone for zone in all_of(shared).values()}
    for name in _Folder.zones.keys() - zones.keys():
        for file in (name, name + "-lock"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(_Folder.path, file))
    _Folder.zones = zones


def remove() -> None:
    """The master ends: nobody will use the zones again."""
    if _Folder.path:
        _delete(_Folder.path)
        os.close(_Folder.held)
        _Folder.path, _Folder.held, _Folder.zones = "", -1, {}


def _file(zone: Zone) -> str:
    """What must stay the same for a zone to live on."""
    return f"{zone.kind}.{zone.size}.{os.fsencode(zone.name).hex()[:120]}"


def _make() -> None:
    from tempfile import mkdtemp

    where = parent()
    sweep(where)
    path = mkdtemp(prefix=_FRESH, dir=where)
    _Folder.held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(_Folder.held, fcntl.LOCK_EX)
    _Folder.path = os.path.join(where, PREFIX + path.rpartition("-")[2])
    os.rename(path, _Folder.path)


def sweep(where: str) -> None:
    """Remove the folders that no master holds."""
    for name in os.listdir(where):
        if not name.startswith(PREFIX):
            continue
        path = os.path.join(where, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # another user's, or no folder
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _delete(path)
        except OSError:
            pass  # its master lives
        finally:
            os.close(fd)


def _delete(path: str) -> None:
    """Remove a folder of files; links in it are not followed."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for name in os.listdir(fd):
                os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)
        os.rmdir(path)
