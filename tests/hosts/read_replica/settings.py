"""Reads from a replica that is read-only and never sees open transactions of the primary."""

from common_settings import *

DATABASES = {
    "default": {},
    "primary": postgresql(),
    "replica": postgresql(OPTIONS={"options": "-c default_transaction_read_only=on"}),
}
DATABASE_ROUTERS = ["replicas.PrimaryReplicaRouter"]
