"""Filters: a webhook's conditions on the data of events. Needs no database."""

from .base import MISSING, BaseOperator
from .budget import EMISSION_STEPS as EMISSION_STEPS
from .budget import WORKER_STEPS as WORKER_STEPS
from .fields import check_fields as check_fields
from .matching import COMBINING as COMBINING
from .matching import Filter as Filter
from .matching import Mismatch as Mismatch
from .operators import BUILT_IN as BUILT_IN
from .registry import make_operators as make_operators

__all__ = ["MISSING", "BaseOperator"]
