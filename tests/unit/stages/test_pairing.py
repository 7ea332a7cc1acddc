from __future__ import annotations

from dataclasses import replace

import pytest

from evidence import ITEMS, RIGHT, golden, item_id, sheet
from quantgate.records import BatchPlan, ScoreSheet
from quantgate.stages.pairing import Pairs, pair, paired_items

BASE = sheet(range(RIGHT), of="float32")


def _pairs(variant: ScoreSheet, reference: ScoreSheet = BASE, role: str = "candidate") -> Pairs:
    found = pair(reference, variant, golden(), role, 0.01)  # type: ignore[arg-type]
    assert isinstance(found, Pairs), found
    return found


def test_flips_are_counted_item_by_item() -> None:
    """B counts what the reference has right and the variant wrong, c the reverse; losses are their signs."""
    found = _pairs(sheet([*range(3, RIGHT), RIGHT]))
    assert (found.n, found.b, found.c, sum(found.losses)) == (ITEMS, 3, 1, 2)


def test_an_item_the_variant_did_not_answer_is_lost_whoever_else_missed_it() -> None:
    """Absent or unscored: wrong for the variant and right for the reference, also where the reference is wrong or absent."""
    reference = sheet(range(RIGHT), of="float32", absent=[ITEMS - 1])
    gone = replace(BASE, variant="int8", items=tuple(one for one in BASE.items if one.item_id != item_id(ITEMS - 1)))
    for variant in (sheet(range(RIGHT), absent=[ITEMS - 1]), gone):
        assert (_pairs(variant).b, _pairs(variant, reference).b, _pairs(variant).absent_variant) == (1, 1, 1)


def test_an_item_the_reference_did_not_answer_is_right_for_it() -> None:
    """2 of 200 may be absent in the reference: a variant that is right ties, one that is wrong has lost."""
    reference = sheet(range(2, RIGHT), of="float32", absent=[0, 1])
    found = _pairs(sheet(range(1, RIGHT)), reference)
    assert (found.b, found.c, found.absent_reference, found.reference_answered_right) == (1, 0, 2, 158)


@pytest.mark.parametrize(
    ("absent", "n", "share", "whole"), [(7, 700, 0.01, True), (29, 100, 0.29, True), (8, 700, 0.01, False)]
)
def test_the_allowed_share_is_exact(absent: int, n: int, share: float, whole: bool) -> None:
    """Exactly the share is allowed, in decimals: 29 of 100 is 0.29, whatever 0.29 * 100 is in floating point."""
    where = golden(items=n)
    reference = sheet(range(n), of="float32", on=where, absent=range(absent))
    assert isinstance(pair(reference, sheet(range(n), on=where), where, "candidate", share), Pairs) == whole


def test_the_order_of_items_does_not_matter() -> None:
    """Pairs go by id."""
    turned = replace(BASE, variant="int8", items=BASE.items[::-1])
    assert _pairs(turned) == _pairs(replace(BASE, variant="int8"))


def test_items_without_a_source_are_sources_of_their_own() -> None:
    """Clusters exist only where two items share one, and no item's id can be mistaken for a cluster."""
    assert _pairs(sheet(range(RIGHT))).clusters is None
    shared = _pairs(sheet(range(RIGHT), clusters=50), sheet(range(RIGHT), of="float32", clusters=50)).clusters
    assert shared is not None and len(set(shared)) == 50
    named = replace(BASE, items=(replace(BASE.items[0], cluster=item_id(1)), *BASE.items[1:]))
    assert _pairs(sheet(range(RIGHT)), named).clusters is None


def test_only_the_identity_control_may_use_other_batches() -> None:
    """Another batch plan is not comparable, except for the control whose point it is."""
    other = sheet(range(RIGHT), batch_plan=BatchPlan(max_rows=4))
    assert _pairs(other, role="identity").b == 0
    reason = pair(BASE, other, golden(), "candidate", 0.01)
    assert isinstance(reason, str) and reason.startswith("not comparable: the batch plan is 16 rows of 2,048 tokens")


def test_items_on_both_sides_are_shown_in_the_variants_order() -> None:
    """For display, items of one side only are left out."""
    variant = replace(BASE, items=BASE.items[5:3:-1])
    assert [right.item_id for _, right in paired_items(BASE, variant)] == [item_id(5), item_id(4)]
