"""tengine: an nginx-compatible reverse proxy and static server in pure Python.

The architecture in twenty lines:

- `config/` reads nginx.conf with crossplane (`source`), binds each statement to a row declared by a module (`schema`,
  `args`, `bind`) and merges levels outer to inner (`merge`). A directive is one row in one place.
- `modules/` holds one file per nginx module. Each looks at its merged conf once, at load, and returns handlers and
  filters closed over what they need, or nothing, and then costs nothing. `modules/__init__.py` lists them in running
  order.
- `build.py` turns the bound configuration into a `Site`: servers, locations, and for each a flat plan of handlers and
  filters.
- `http/` is the engine. `connection` receives bytes, `wire` parses one `Request`, `router` picks server and location,
  `engine` runs the plan, `output` runs the filters and writes.
- A handler answers `None` (next), a `Response` (done) or a `Redirect` (route again); it raises `HttpError` for a status
  that `error_page` may replace.
- Everything runs synchronously in the event loop's callback as far as it goes; `http/flow` parks a request that really
  has to wait, without a Task.
- `upstream/` speaks to the servers behind, with the same parser and a pool of kept connections.
- `lua/` joins LuaJIT to the engine. `codings` owns the compression libraries, `pattern` PCRE2, `log` the error log.
- `process/` is the master, its workers and their signals; `__main__` the command line.
"""

VERSION = "1.28.0"  # the nginx release whose behaviour is claimed: `-V`, `$nginx_version`, the Server header
