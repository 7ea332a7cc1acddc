"""Forests: what shares a row, what it costs, and where each continuation is answered."""

from __future__ import annotations

import random

import pytest

from quantgate.engines.forest import FILL, ROW_TOKENS, Row, forwards, rows

EVEN, MOST = 3456.0, 682


def sequence(row: Row, node: int) -> tuple[int, ...]:
    """The tokens that a node has seen, itself included."""
    seen: list[int] = []
    while node >= 0:
        seen.append(row.tokens[node])
        node = row.parents[node]
    return tuple(reversed(seen))


def drawn(count: int, seed: int = 0) -> tuple[list[tuple[int, ...]], list[list[tuple[int, ...]]]]:
    rng = random.Random(seed)
    prefixes = [tuple(rng.choices(range(50), k=rng.randint(1, 40))) for _ in range(3)]
    contexts = [rng.choice(prefixes) + tuple(rng.choices(range(4), k=rng.randint(0, 5))) for _ in range(count)]
    continuations = [
        [tuple(rng.choices(range(3), k=rng.randint(1, 6))) for _ in range(rng.randint(1, 5))] for _ in range(count)
    ]
    return contexts, continuations


@pytest.mark.parametrize("most", [MOST, 30])
def test_every_token_of_every_continuation_is_asked_after_what_precedes_it(most: int) -> None:
    """Each choice of each item once; at each of its nodes the row has read context and earlier tokens and nothing else."""
    contexts, continuations = drawn(40)
    asked = {}
    for row in rows(contexts, continuations, even_tokens=EVEN, most_tokens=most):
        for ask in row.asks:
            assert (ask.item, ask.choice) not in asked
            asked[ask.item, ask.choice] = ask.tokens
            for place, node in enumerate(ask.nodes):
                assert sequence(row, node) == contexts[ask.item] + continuations[ask.item][ask.choice][:place]
    assert asked == {
        (item, choice): tokens for item, choices in enumerate(continuations) for choice, tokens in enumerate(choices)
    }


def test_no_row_holds_a_token_twice() -> None:
    """Two nodes of a row never stand for the same sequence; parents come first and depth counts them."""
    for row in rows(*drawn(60), even_tokens=EVEN, most_tokens=MOST):
        assert len({sequence(row, node) for node in range(len(row))}) == len(row)
        for node, parent in enumerate(row.parents):
            assert parent < node
            assert row.depths[node] == len(sequence(row, node)) - 1


def test_what_is_shared_is_read_once() -> None:
    """One context of 3, choices 5 6, 5 7 and 8: only the 5 is read beside the context. A second item of the context adds its own 9."""
    made = rows([(1, 2, 3)], [[(5, 6), (5, 7), (8,)]], even_tokens=EVEN, most_tokens=MOST)
    assert [row.tokens for row in made] == [[1, 2, 3, 5]]
    made = rows([(1, 2, 3)] * 2, [[(5, 6), (5, 7), (8,)], [(9, 6), (5, 1)]], even_tokens=EVEN, most_tokens=MOST)
    assert [row.tokens for row in made] == [[1, 2, 3, 5, 9]]


def test_a_long_common_beginning_is_shared_beyond_the_usual_row() -> None:
    """A prefix of 400 saves more than the attention between strangers costs; unrelated items of that length stay apart."""
    prefix = tuple(range(400))
    related = rows([(*prefix, n) for n in range(8)], [[(1, 2)]] * 8, even_tokens=EVEN, most_tokens=MOST)
    assert [len(row) for row in related] == [400 + 16]
    apart = rows([(n, *prefix) for n in range(8)], [[(1, 2)]] * 8, even_tokens=EVEN, most_tokens=MOST)
    assert [len(row) for row in apart] == [402] * 8


def test_short_strangers_are_packed() -> None:
    """Items of 40 tokens without anything in common share rows of at most 128."""
    made = rows([tuple(range(n, n + 40)) for n in range(9)], [[(1,)]] * 9, even_tokens=EVEN, most_tokens=MOST)
    assert [len(row) for row in made] == [120, 120, 120]
    assert max(map(len, made)) <= ROW_TOKENS


def test_an_item_that_is_too_large_is_split_by_its_choices() -> None:
    """No row is longer than allowed as long as one choice fits; a choice that does not has a row of its own."""
    choices = [tuple(range(start, start + 30)) for start in range(20)]
    made = rows([(1, 2)], [choices], even_tokens=EVEN, most_tokens=100)
    assert len(made) == 7 and max(map(len, made)) <= 100
    assert [len(row) for row in rows([(1, 2)], [choices[:1]], even_tokens=EVEN, most_tokens=10)] == [31]


def test_forwards_hold_rows_of_like_length() -> None:
    """Padded size within the limit, no row much shorter than the first, and every row once and in order."""
    made = [Row(tokens=[0] * size) for size in (500, 130, 128, 127, 100, 95, 60, 5)]
    parts = list(forwards(made, 400))
    assert [[len(row) for row in part] for part in parts] == [[500], [130, 128, 127], [100, 95], [60], [5]]
    for part in parts:
        assert len(part) == 1 or len(part) * len(part[0]) <= 400
        assert all(len(row) >= FILL * len(part[0]) for row in part)


def test_the_layout_does_not_depend_on_the_order_of_the_batch() -> None:
    """The same items in another order make the same rows."""
    contexts, continuations = drawn(30)
    order = random.Random(1).sample(range(30), 30)
    shuffled = rows([contexts[n] for n in order], [continuations[n] for n in order], even_tokens=EVEN, most_tokens=MOST)
    straight = rows(contexts, continuations, even_tokens=EVEN, most_tokens=MOST)
    assert sorted(len(row) for row in shuffled) == sorted(len(row) for row in straight)
