"""Benchmarks: nginx and tengine side by side on the same conf; `make bench`, or `python -m benchmarks --help`.

The main figure is the CPU time (user and system) that the whole process tree of a server used per request, since it
does not depend on how busy the machine is otherwise. Both servers of a case are up together and are measured in turn,
each pinned to the same core, with the load on another. A ratio above 1 means that tengine is cheaper. Differences under
10 % are noise.
"""
