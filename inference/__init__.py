"""The speech service: text and a short recording of a voice in, a WAV in that voice out, over HTTP.

A request walks through few files. A route (`routes/`) lets `schema` read the fields, `prompts` and `audio` turn the
prompt into checked samples, and hands an utterance to `runner`, the one thread that owns an engine (`engines/`).
The sound comes back piece by piece, `audio` makes a WAV of it, `storage` makes that durable, and the route answers.
Every refusal is a `ServiceError` (`errors`) and leaves as the same JSON shape. `settings` reads the environment,
`app` wires the parts together, `wsgi` is the entry for gunicorn, whose settings lie in `deploy/gunicorn.conf.py`.
Model libraries are imported under `engines/` only; importing any module here has no effects.
"""
