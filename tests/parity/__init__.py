"""Parity: the same conf and the same bytes go to nginx and to tengine, and the answers must be the same.

A case is one file, `cases/<area>/<name>.case`; `case.py` says how it is written. `python -m tests.parity --help` shows
what a server answers to one.
"""
