"""Answers of upstream servers kept in files, for `proxy_cache`: names, rules, files, marks, fills and the sweep.

The files are the truth, and all workers share them: each begins with a head that describes it, so there is no index to
load, to lose or to repair. What only matters between workers for a while (who fetches, how often was it asked for,
which error was met) is in the zone of `keys_zone`. The time of last use is the file's access time, set by us.
"""
