"""Lays contexts and their continuations out as rows of prefix trees, so that no token is computed twice where the row already holds it.

A token's hidden state depends on the tokens before it and on nothing else. So continuations of one context, contexts with a common
beginning (a few-shot prefix, one question asked many times) and continuations with a common beginning share those tokens: each row is a
tree, each token attends to its ancestors only, and one forward answers everything. Unrelated short items share a row too, because that
costs a little attention and no padding. Knows token ids and nothing about models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

ROW_TOKENS = 128
"""Items are packed into rows of about this many tokens: attention over them is then some 4 % of the work."""

FILL = 0.75
"""A row shorter than this share of its forward's longest one starts a forward of its own: padding would cost more."""

Tokens = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """What a continuation's log-likelihood is summed from: at each node of its row, the log probability of one token."""

    item: int
    choice: int
    nodes: tuple[int, ...]
    tokens: Tokens


@dataclass(slots=True)
class Row:
    """A forest over token ids. A node's parent comes before it; -1 is the parent of a root."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)

    def path(self, tokens: Tokens, start: int = -1) -> list[int]:
        """The nodes of a sequence below ``start``, made where they are missing."""
        found = []
        for token in tokens:
            start = self._child(start, token)
            found.append(start)
        return found

    def new_tokens(self, other: Row) -> int:
        """How many nodes of ``other`` this row does not hold."""
        known: dict[int, int] = {-1: -1}
        for node, (parent, token) in enumerate(zip(other.parents, other.tokens, strict=True)):
            if parent in known and (here := self._children.get((known[parent], token))) is not None:
                known[node] = here
        return len(other) - (len(known) - 1)

    def join(self, other: Row) -> None:
        """Take in the nodes and the questions of another row."""
        here = {-1: -1}
        for node, (parent, token) in enumerate(zip(other.parents, other.tokens, strict=True)):
            here[node] = self._child(here[parent], token)
        for ask in other.asks:
            nodes = tuple(here[node] for node in ask.nodes)
            self.asks.append(Ask(item=ask.item, choice=ask.choice, nodes=nodes, tokens=ask.tokens))

    def _child(self, parent: int, token: int) -> int:
        found = self._children.get((parent, token))
        if found is None:
            found = self._children[parent, token] = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(parent)
            self.depths.append(0 if parent < 0 else self.depths[parent] + 1)
        return found


def rows(
    contexts: Sequence[Tokens], continuations: Sequence[Sequence[Tokens]], *, even_tokens: float, most_tokens: int
) -> list[Row]:
    """The forests of one batch, longest first; which they are depends on the batch only.

    ``even_tokens``: row length at which attention costs as much as everything else. ``most_tokens``: an item whose tree is longer is
    split by its choices, each part with the context again.
    """
    made: list[Row] = []
    for item in sorted(range(len(contexts)), key=lambda at: (contexts[at], at)):
        for tree in _trees(item, contexts[item], continuations[item], most_tokens):
            if made and _joins(made[-1], tree, even_tokens, most_tokens):
                made[-1].join(tree)
            else:
                made.append(tree)
    return sorted(made, key=lambda row: -len(row))  # stable


def forwards(made: Sequence[Row], most_tokens: int) -> Iterator[list[Row]]:
    """Rows of like length together, padded length times rows within ``most_tokens``; a longer row alone."""
    part: list[Row] = []
    for row in made:
        longest = len(part[0]) if part else 0
        if part and (longest * (len(part) + 1) > most_tokens or len(row) < FILL * longest):
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def _plant(row: Row, context: Tokens, continuations: Sequence[Tokens]) -> list[tuple[int, ...]]:
    """For each continuation the nodes that predict its tokens."""
    end = row.path(context)[-1]
    return [(end, *row.path(tokens[:-1], end)) for tokens in continuations]


def _trees(item: int, context: Tokens, continuations: Sequence[Tokens], most_tokens: int) -> Iterator[Row]:
    tree = Row()
    for choice, tokens in enumerate(continuations):
        if tree.asks and len(tree) + len(tokens) - 1 > most_tokens:
            yield tree
            tree = Row()
        nodes = _plant(tree, context, [tokens])[0]
        tree.asks.append(Ask(item=item, choice=choice, nodes=nodes, tokens=tokens))
    if tree.asks:
        yield tree


def _joins(row: Row, tree: Row, even_tokens: float, most_tokens: int) -> bool:
    """Whether one row is cheaper than two: the shared tokens saved against the attention between strangers."""
    joined = len(row) + row.new_tokens(tree)
    if joined > most_tokens:
        return False
    apart = len(row) + len(tree) + (len(row) ** 2 + len(tree) ** 2) / even_tokens
    return joined <= ROW_TOKENS or joined + joined**2 / even_tokens <= apart
