"""ngx.var: reading and writing nginx's variables by name."""

from gateway.lua import bridge

_FAMILIES = (b"arg_", b"http_", b"cookie_", b"sent_http_", b"sent_trailer_", b"upstream_http_", b"upstream_cookie_")


def get_variable(name: bytes) -> bytes | None:
    run = bridge.current
    variable = run.site.variable(name)
    return None if variable is None else variable.get(run.request)


def set_variable(name: bytes, value: bytes | None) -> bytes | None:
    """Returns OpenResty's message if the variable cannot be set."""
    run = bridge.current
    variable = run.site.variable(name)
    if variable is None or (variable.set is None and name.lower().startswith(_FAMILIES)):
        return (
            b'variable "%b" not found for writing; maybe it is a built-in variable that is not changeable or you '
            b"forgot to use \"set $%b '';\" in the config file to define it first" % (name, name)
        )
    if variable.set is None:
        return b'variable "%b" not changeable' % name
    variable.set(run.request, value)
    return None


def get_capture(number: int) -> bytes | None:
    captures = bridge.current.request.captures
    return captures[number] if number < len(captures) else None


FUNCTIONS = {"get_variable": get_variable, "set_variable": set_variable, "get_capture": get_capture}
