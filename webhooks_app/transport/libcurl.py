"""Import of libcurl, independent of the environment."""

from __future__ import annotations

import os
import sys

KEY_LOG = "SSLKEYLOGFILE"


def _import_without_key_log() -> None:
    """Import pycurl, and prevent libcurl from writing TLS keys to the file in ``SSLKEYLOGFILE``.

    libcurl opens the file during initialization and reads the variable again only if no file is open. Therefore the
    variable names the null device during the import. Raise ImportError if pycurl was imported before with the
    variable set.
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

        pycurl.Curl().close()  # the first handle initializes libcurl
    finally:
        if key_log is None:
            del os.environ[KEY_LOG]
        else:
            os.environ[KEY_LOG] = key_log


_import_without_key_log()

import pycurl  # noqa: E402

if not hasattr(pycurl.Curl, "recv"):
    raise ImportError(f"pycurl 7.49 or newer is required. Found {pycurl.version}.")

__all__ = ["pycurl"]
