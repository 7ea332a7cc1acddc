"""Who drafts: what is looked up, what a second model may say, and whose vocabulary is refused."""

from __future__ import annotations

import pytest

import toys
from quantgate.engines.fake import FakeTokenizer
from quantgate.stages.draft import DraftModel, looked_up, why_other_vocabulary


class Pieces(FakeTokenizer):
    def __init__(self, *pieces: str) -> None:
        self._pieces = pieces

    def pieces(self) -> tuple[str, ...]:
        return self._pieces


@pytest.mark.parametrize(
    ("tokens", "most", "expected"),
    [
        ([1, 2, 3, 9, 1, 2, 3], 2, [9, 1]),
        ([5, 1, 2, 7, 1, 2, 8, 3, 1, 2], 1, [8]),
        ([4, 4, 4], 3, [4]),
        ([1, 2, 3], 2, []),
        ([1], 2, []),
        ([1, 2, 1], 0, []),
    ],
    ids=["longest n-gram", "latest place", "its own end", "nothing repeats", "one token", "none asked for"],
)
def test_looked_up(tokens: list[int], most: int, expected: list[int]) -> None:
    """What followed the longest tail at its latest earlier place, at most so many tokens, and nothing that is not there."""
    assert looked_up(tokens, most) == expected


def test_a_draft_ends_before_an_id_that_the_target_lacks() -> None:
    """An embedding padded beyond the target's vocabulary can say such an id; it is never proposed."""
    draft = DraftModel(toys.RuleSession(lambda row: 7 if len(row) < 4 else 900), vocabulary=100, eos_ids=(2,))
    draft.begin([(1, 2)])
    assert draft.propose([[5]], [4]) == [[7]]


def test_a_draft_ends_at_the_targets_end_of_sequence() -> None:
    """Behind it nothing that is drafted could go out."""
    draft = DraftModel(toys.RuleSession(lambda row: 2 if len(row) == 5 else 8), vocabulary=100, eos_ids=(2,))
    draft.begin([(1, 2)])
    assert draft.propose([[5]], [6]) == [[8, 8, 2]]


def test_a_drafter_reads_what_it_has_not_read_and_takes_back_what_was_refused() -> None:
    """Its cache follows the target: only new tokens are read, and rows without a draft to make read none."""
    session = toys.RuleSession(lambda row: row[-1] + 1)
    draft = DraftModel(session, vocabulary=100, eos_ids=())
    draft.begin([(1,), (50,)])
    assert draft.propose([[5], [60]], [3, 2]) == [[6, 7, 8], [61, 62]]
    session.reads.clear()
    assert draft.propose([[5, 6, 20], [60, 61, 62, 63]], [1, 0]) == [[21], []]
    assert session.reads == [[[20], []]]
    draft.keep([1])
    assert draft.propose([[60, 61, 62, 63]], [1]) == [[64]]


def test_vocabularies_are_compared_piece_by_piece() -> None:
    """The first id that stands for something else is named; unused ids at the end are no difference."""
    assert why_other_vocabulary(Pieces("a", "b"), Pieces("a", "b", "", "")) is None
    assert why_other_vocabulary(Pieces("a", "b", "c"), Pieces("a", "x", "c")) == "id 1 is 'b' to the target and 'x' to the drafter"
    assert why_other_vocabulary(Pieces("a"), Pieces("a", "b")) == "id 1 is nothing to the target and 'b' to the drafter"
