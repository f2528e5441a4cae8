"""Use cases: each checks permission and limits, makes the change and writes the audit entry.

The API, the console and the commands translate their input into a call, and its result or error into an answer. Each
call names an actor.
"""
