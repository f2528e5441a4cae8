"""Importing libcurl so that the environment has no say in it."""

from __future__ import annotations

import os
import sys

KEY_LOG = "SSLKEYLOGFILE"


def _import_without_key_log() -> None:
    """Import pycurl so that libcurl cannot write the keys of TLS connections to the file that the variable names.

    libcurl opens the file when it is initialised, and looks at the variable again only if it has none. So it gets the
    null device. Raises ImportError if pycurl was imported with the variable before.
    """
    if "pycurl" in sys.modules:
        if KEY_LOG in os.environ:
            raise ImportError(
                f"pycurl was imported while {KEY_LOG} was set, so that libcurl may write the keys of all TLS"
                f" connections to a file. Remove {KEY_LOG} from the environment."
            )
        return
    key_log = os.environ.get(KEY_LOG)
    os.environ[KEY_LOG] = os.devnull
    try:
        import pycurl  # noqa: PLC0415

        pycurl.Curl().close()  # libcurl is initialised with the first handle
    finally:
        if key_log is None:
            del os.environ[KEY_LOG]
        else:
            os.environ[KEY_LOG] = key_log


_import_without_key_log()

import pycurl  # noqa: E402

if not hasattr(pycurl.Curl, "recv"):
    raise ImportError(f"pycurl 7.49 or newer is needed; this is {pycurl.version}.")

__all__ = ["pycurl"]
