"""What is doubtful in one item alone: its characters, an answer that stands in its prompt, choices that are one, lengths that cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from quantgate.golden_keys import BUILT_IN
from quantgate.hygiene.findings import Finding, warning
from quantgate.hygiene.schemas import schema_doubts
from quantgate.hygiene.texts import oddities, plain, words
from quantgate.records import GoldenItem

LEAST_LETTERS = 4
"""Shorter answers stand in a prompt by chance."""
_TOLD = r"(?:answer|solution|result|correct(?: (?:one|choice|option))?)(?: is)?\W{0,4}"


def doubts(item: GoldenItem) -> Iterator[Finding]:
    """Every doubt about one item, in the order of its keys."""
    yield from _characters(item)
    yield from _leaks(item)
    yield from _choices(item)
    yield from _ends(item)
    yield from _pattern(item)
    yield from schema_doubts(item)


def fields(item: GoldenItem) -> Iterator[tuple[str, str]]:
    """Each text of an item with its key."""
    if not item.messages:
        yield prompt_key(item), item.prompt
    if item.few_shot:
        yield "few_shot", item.few_shot
    yield from ((f"messages[{at}]", said.content) for at, said in enumerate(item.messages))
    for name, texts in (("choices", item.choices), ("answers", item.answers), ("references", item.references)):
        yield from ((f"{name}[{at}]", text) for at, text in enumerate(texts))


def prompt_key(item: GoldenItem) -> str:
    """The key that holds the question in the file."""
    keys = BUILT_IN.get(item.metric)
    return "messages" if item.messages else "text" if keys is not None and keys.right == "text" else "prompt"


def asked(item: GoldenItem) -> str:
    """The question in its own words: of a conversation what was said, without who said it."""
    return "\n".join(one.content for one in item.messages) or item.prompt


def right(item: GoldenItem) -> tuple[str, ...]:
    """The right answers as texts; none where a pattern, a schema or the text itself decides."""
    return (*item.answers, *item.references) if item.answer is None else (item.choices[item.answer],)


def _characters(item: GoldenItem) -> Iterator[Finding]:
    for field, text in fields(item):
        for kind, what, advice in oddities(text):
            yield warning(kind, item.line, field, what, advice)


def _leaks(item: GoldenItem) -> Iterator[Finding]:
    """The right answer where it need only be copied. A prompt that lists all choices tells nothing."""
    prompt = plain(asked(item))
    if item.few_shot and prompt in plain(item.few_shot):
        yield warning("prompt in few_shot", item.line, "few_shot", "holds the item's own prompt", "draw another example")
    for answer in right(item):
        said = plain(answer)
        if not words(said):
            continue
        if item.few_shot and re.search(rf"(?<!\w){re.escape(said)}\W*$", plain(item.few_shot)):
            what = f"ends with the right answer {_short(answer)}, where it can be copied"
            yield warning("answer in few_shot", item.line, "few_shot", what, "draw another last example")
        if _tells(prompt, said, item):
            what, advice = f"holds the right answer {_short(answer)}", "take it out, or leave it if it is to be found there"
            yield warning("answer in prompt", item.line, prompt_key(item), what, advice)


def _tells(prompt: str, said: str, item: GoldenItem) -> bool:
    if said not in prompt:
        return False
    standing = rf"(?<!\w){re.escape(said)}(?!\w)"
    if re.search(rf"{_TOLD}{re.escape(said)}(?!\w)", prompt) and not _offered(prompt, said):
        return True
    if item.choices:
        others = [plain(one) for at, one in enumerate(item.choices) if at != item.answer]
        alone = not any(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", prompt) for one in others)
        return alone and len(said) >= LEAST_LETTERS and re.search(standing, prompt) is not None
    spelt = len(said) >= LEAST_LETTERS and any(one.isalpha() for one in said)
    return spelt and re.search(standing, prompt) is not None


def _offered(prompt: str, said: str) -> bool:
    """``answer yes or no``: the answer is one of those that the prompt offers."""
    one = re.escape(said)
    return re.search(rf"{_TOLD}{one}(?:,| or | and |/)|(?:,| or | and |/) ?{one}(?!\w)", prompt) is not None


def _choices(item: GoldenItem) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for at, choice in enumerate(item.choices):
        key = " ".join(words(choice)) or plain(choice)
        if (before := first.setdefault(key, at)) != at:
            what = f"is choices[{before}] but for case, punctuation or white space: {_short(choice)}"
            yield warning("choices alike", item.line, f"choices[{at}]", what, "make them differ in more than spelling")


def _ends(item: GoldenItem) -> Iterator[Finding]:
    """What no output can do: be longer than its cap; and what changes tokens: white space at the end of a raw prompt."""
    shortest = min((len(words(one)) for one in item.answers), default=0)
    if shortest > item.max_new_tokens:
        what = f"every right answer has {shortest} words or more, and the output ends after {item.max_new_tokens} tokens"
        yield warning("answer too long", item.line, "max_new_tokens", what, "raise max_new_tokens, or shorten the answer")
    if item.template == "raw" and item.prompt.endswith((" ", "\t")):
        what = "ends in white space, which changes the tokens of what follows"
        yield warning("space at the end", item.line, "prompt", what, "remove it: quantgate adds the space")


def _pattern(item: GoldenItem) -> Iterator[Finding]:
    """Patterns that hardly any output can match."""
    pattern = str(item.options.get("pattern", "")) if item.metric == "regex" else ""
    if "(?!)" in pattern:
        yield warning("pattern", item.line, "options.pattern", "holds (?!), which never matches", "write what a right output has")
    for mark in item.stop:
        if mark in pattern or repr(mark)[1:-1] in pattern:
            what = f"holds the stop string {mark!r}, and the output ends before it"
            yield warning("pattern", item.line, "options.pattern", what, "leave that stop string out, or the pattern's part behind it")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
