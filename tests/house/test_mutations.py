"""Each mutation can still be applied. ``python -m tests.mutations`` runs them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutations.__main__ import problem_of
from tests.mutations.catalogue import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_old_text_of_a_mutation_occurs_once(mutation: Mutation) -> None:
    assert problem_of(mutation) == ""


def test_names_are_unique() -> None:
    assert [name for name, number in Counter(each.name for each in MUTATIONS).items() if number > 1] == []


def test_a_mutation_without_its_text_is_refused() -> None:
    gone = Mutation("gone", "delivery/claim.py", "no such text", "", "delivery")

    assert "occurs 0 times" in problem_of(gone)
