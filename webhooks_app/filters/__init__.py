"""Filters: a webhook's conditions on the data of events. Needs no database."""

from __future__ import annotations

from ..implementations import Implementations
from .fields import check_fields as check_fields
from .matching import COMBINING as COMBINING
from .matching import Filter as Filter
from .matching import Mismatch as Mismatch
from .operators import EMISSION_STEPS as EMISSION_STEPS
from .operators import MISSING, OPERATORS, BaseOperator
from .operators import WORKER_STEPS as WORKER_STEPS

__all__ = ["MISSING", "BaseOperator"]


def _problem_of(operator: type[BaseOperator]) -> str:
    is_operator = operator.name.startswith("$") and len(operator.name) > 1
    return "" if is_operator else f"{operator.name!r} isn't the name of an operator: begin it with a dollar sign"


FILTER_OPERATORS: Implementations[BaseOperator] = Implementations(
    BaseOperator,  # type: ignore[type-abstract]
    {operator.name: operator for operator in OPERATORS},
    reserved=COMBINING,
    find_problem=_problem_of,
)
