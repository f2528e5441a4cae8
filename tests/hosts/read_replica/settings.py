"""Reads go to a replica that refuses to write and never sees an open transaction of the primary."""

from common_settings import *

DATABASES = {
    "default": {},
    "primary": postgresql(),
    "replica": postgresql(OPTIONS={"options": "-c default_transaction_read_only=on"}),
}
DATABASE_ROUTERS = ["replicas.PrimaryReplicaRouter"]
