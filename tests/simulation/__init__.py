"""A deterministic simulation of workers, their database, receivers and users, with faults at every step.

All of it runs in one thread with a virtual clock, so that a seed repeats a history exactly. The code that delivers is
the real one. ``loop`` replaces threads, ``store`` the database, ``receivers`` the transport; ``adapter`` connects them.
"""
