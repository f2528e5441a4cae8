"""Filters: conditions on the data of events, which a webhook sets to receive fewer of them. Needs no database."""

from .base import MISSING, BaseOperator
from .fields import check_fields
from .matching import COMBINING, Filter, Mismatch
from .operators import BUILT_IN
from .registry import make_operators

__all__ = ["BUILT_IN", "COMBINING", "MISSING", "BaseOperator", "Filter", "Mismatch", "check_fields", "make_operators"]
