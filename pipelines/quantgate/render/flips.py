"""The flips of a golden set on the page: both answers side by side, worst first, with a filter.

The filter is one short script inside the page. Without scripts its form stays hidden and every row stands there; on
paper every row stands there too, whatever was filtered. ``policy_source`` is what a content security policy must name
for the script to run, so that no other can.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence

from quantgate.records import FlipCount, FlipRow, Role
from quantgate.render import quantities as q
from quantgate.render.elements import Cell, Column, Html, el, fold, folded_text, join, table, with_small, words
from quantgate.render.terminal import worst_first

_SHOWN, _FOLDED = 10, 200
_WORSE, _BETTER = "got worse", "got better"


def flips(label: str, found: Sequence[FlipRow], roles: Mapping[str, Role], counts: Sequence[FlipCount] = ()) -> Html:
    """A golden set's flips, a fold a variant; those of candidates are open. Nothing where nothing flipped.

    ``counts``: of variants with more flips on the set than ``found`` has.
    """
    if not found:
        return Html("")
    of = {one.variant: one for one in counts}
    each = [
        _flips_of([flip for flip in found if flip.variant == variant], of.get(variant), variant, opened=role == "candidate")
        for variant, role in roles.items()
    ]
    return el("div", _filter(label, found), *each, data_flips="")


def script() -> Html:
    """The script that runs the filter."""
    return Html(f"<script>{_SCRIPT}</script>")


def policy_source() -> str:
    """The script's digest as a content security policy writes it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()}'"


# ---------------------------------------------------------------------------------------------- the filter


def _filter(label: str, found: Sequence[FlipRow]) -> Html:
    variants = list(dict.fromkeys(flip.variant for flip in found))
    slices = sorted({flip.slice for flip in found})
    return el(
        "form",
        _choice("variant", "Variant", [(one, one) for one in variants]),
        _choice("direction", "Change", [("regression", _WORSE), ("recovery", _BETTER)]),
        _choice("slice", "Slice", [(one, one or "(none)") for one in slices]),
        el("label", "Text", el("input", type="search", name="text", autocomplete="off")),
        el("button", "Show all", type="reset"),
        el("output", aria_live="polite", name="shown"),
        class_="filter",
        hidden="",
        role="search",
        aria_label=f"Filter the flips of {label}",
    )


def _choice(name: str, title: str, options: Sequence[tuple[str, str]]) -> Html:
    """A list to choose from; a value carries ``=`` in front, so that an empty name is not the choice of all."""
    every = el("option", "all", value="")
    return el(
        "label",
        title,
        el("select", every, *(el("option", shown, value=f"={value}") for value, shown in options), name=name),
    )


# ---------------------------------------------------------------------------------------------- the rows


def _flips_of(found: Sequence[FlipRow], counted: FlipCount | None, variant: str, *, opened: bool) -> Html:
    """Show the worst flips of a variant, fold the next ones, and say where how many more are."""
    if not found:
        return Html("")
    ordered = worst_first(found)
    worse = sum(flip.direction == "regression" for flip in found)
    better = len(found) - worse
    if counted is not None:
        worse, better = counted.regressions, counted.recoveries
    said = f"{variant}: {q.count(worse)} items {_WORSE}, {q.count(better)} {_BETTER}"
    shown, folded = ordered[:_SHOWN], ordered[_SHOWN:_FOLDED]
    left = len(ordered) - len(shown) - len(folded)
    rest = f"The next {q.count(len(folded))} flips of {variant}"
    more = f"{q.count(left)} more are in report.json and not searched here." if left else ""
    if worse + better > len(found):
        more = f"{more} All {q.count(worse + better)} are in evidence.json; report.json lists the worst {q.count(len(found))}."
    return fold(
        said,
        _table(f"Flips of {variant}: what got worse first, and of these what moved farthest", shown),
        fold(rest, _table(rest, folded), el("p", more, class_="note") if more else "") if folded else "",
        opened=opened,
    )


def _table(caption: str, found: Sequence[FlipRow]) -> Html:
    columns = [
        words("Item"),
        words("Change"),
        Column("Moved, nats" if all(flip.reference_score is None for flip in found) else "Moved, in score"),
        words("Prompt"),
        words("Right answer"),
        words("Reference"),
        words("Variant"),
    ]
    marks = [
        {"data_variant": flip.variant, "data_direction": flip.direction, "data_slice": flip.slice} for flip in found
    ]
    return table(caption, columns, [_cells(flip) for flip in found], kind="stack flips", marks=marks)


def _cells(flip: FlipRow) -> list[Cell]:
    worse = flip.direction == "regression"
    return [
        with_small(flip.item_id, flip.slice),
        _WORSE if worse else _BETTER,
        q.significant(flip.severity, 2),
        folded_text(flip.prompt),
        folded_text(flip.expected),
        join([folded_text(flip.reference_answer), _mark(worse, flip.reference_score)]),
        join([folded_text(flip.variant_answer), _mark(not worse, flip.variant_score)]),
    ]


def _mark(right: bool, score: float | None) -> Html:
    """Right or wrong, or the score; marked where it is the better of the two."""
    word = "right" if right else "wrong"
    return el("span", word if score is None else f"score {q.significant(score)}", class_="mark right" if right else "mark")


_SCRIPT = """
for (const set of document.querySelectorAll('[data-flips]')) {
  const form = set.querySelector('form'), fields = form.elements;
  const rows = [...set.querySelectorAll('tbody tr')];
  const folds = [...set.querySelectorAll('details')].filter(fold => fold.querySelector('tbody'));
  const opened = folds.map(fold => fold.open);
  const names = ['variant', 'direction', 'slice'];
  const apply = () => {
    const text = fields.text.value.trim().toLowerCase();
    const chosen = names.filter(name => fields[name].value);
    const active = chosen.length > 0 || text !== '';
    let shown = 0;
    for (const row of rows) {
      const fits = chosen.every(name => fields[name].value === '=' + row.dataset[name])
        && (!text || row.textContent.toLowerCase().includes(text));
      row.hidden = !fits;
      shown += fits;
    }
    folds.forEach((fold, index) => {
      const found = fold.querySelector('tbody tr:not([hidden])') !== null;
      fold.hidden = active && !found;
      fold.open = active ? found : opened[index];
    });
    set.querySelectorAll('.scroll').forEach(part => { part.hidden = active && !part.querySelector('tbody tr:not([hidden])'); });
    form.querySelector('output').textContent = shown + ' of ' + rows.length + ' flips shown';
  };
  form.addEventListener('input', apply);
  form.addEventListener('reset', () => setTimeout(apply));
  form.addEventListener('submit', event => event.preventDefault());
  form.hidden = false;
  apply();
}
"""

STYLE = """
[hidden] { display: none !important; }
.filter { display: flex; flex-wrap: wrap; align-items: end; gap: 8px 16px; margin: 16px 0; font-size: 13.5px; }
.filter label { display: grid; gap: 2px; color: var(--muted); font-size: 12px; min-width: 0; max-width: 100%; }
.filter select, .filter input, .filter button { font: inherit; font-size: 13.5px; color: var(--ink); min-height: 32px;
  max-width: 100%; padding: 2px 6px; background: #fff; border: 1px solid var(--muted); border-radius: 4px; }
.filter :focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
@media print {
  .filter { display: none !important; }
  [data-flips] tr[hidden] { display: table-row !important; }
  [data-flips] details[hidden], [data-flips] .scroll[hidden] { display: block !important; }
}
"""
