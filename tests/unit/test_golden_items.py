"""The item format: what each metric's items have, chat messages, weights and options, and every fault's line and field."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from quantgate import golden, plugins
from quantgate.errors import GoldenSetError, UsageError
from quantgate.golden_keys import BUILT_IN, DEFAULTS, ItemKeys
from quantgate.records import ChatMessage, GoldenItem

OK: dict[str, Any] = {"id": "ok", "prompt": "p", "answer": "x"}
ITEMS: dict[str, dict[str, Any]] = {
    "multiple_choice": {"choices": ["a", "b"], "answer": 0},
    "multiple_choice_norm": {"choices": ["a", "b"], "answer": 0},
    "multiple_choice_norm_bytes": {"choices": ["a", "b"], "answer": 0},
    "exact_match": {"answer": "x"},
    "numeric_match": {"answers": ["9,500", 3]},
    "regex": {"options": {"pattern": "^a"}},
    "f1": {"references": ["x"]},
    "rouge": {"references": ["x"], "options": {"kind": "rouge2"}},
    "bleu": {"references": ["x"]},
    "json_schema": {"options": {"schema": {"type": "object", "maxProperties": 2}}},
    "instructions": {"options": {"max_words": 5, "contains": ["x"]}},
    "perplexity": {"text": "Once upon a time."},
    "library": {"options": {"name": "n", "revision": "r", "key": "k", "direction": "lower", "scale": "unit"}},
}
"""The least item of each metric, its id, prompt and metric apart."""


def row(metric: str, **changes: Any) -> dict[str, Any]:
    """The least item of a metric, with changes; ``...`` takes a key out."""
    asked = {} if metric == "perplexity" else {"prompt": "p"}
    made = {"id": "a", "metric": metric, **asked, **ITEMS[metric], **changes}
    return {key: value for key, value in made.items() if value is not ...}


def read(folder: Path, *rows: dict[str, Any]) -> tuple[GoldenItem, ...]:
    """Read items from a bare file."""
    path = folder / "set.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return golden.load(path).items


def refused(folder: Path, faulty: dict[str, Any]) -> str:
    """What is said of a faulty second line."""
    with pytest.raises(GoldenSetError) as caught:
        read(folder, OK, faulty)
    assert caught.value.line == 2
    return str(caught.value)


@pytest.mark.parametrize("metric", ITEMS)
def test_the_least_item_of_each_metric_is_read(tmp_path: Path, metric: str) -> None:
    """Every built-in metric has one, with a length cap of its own."""
    (found,) = read(tmp_path, row(metric))
    assert (found.metric, found.weight, found.max_new_tokens) == (metric, 1.0, BUILT_IN[metric].default_new_tokens)


def test_metrics_items_and_keys_are_the_same_list() -> None:
    """Each adapter points at its own entry of the table, has its name, and its defaults are options it has."""
    assert set(ITEMS) == set(BUILT_IN) == set(plugins.BUILT_IN["metric"])
    for name in BUILT_IN:
        metric = plugins.load("metric", name)
        assert metric.keys is BUILT_IN[name], name
        assert metric.info.name == name or name == "rouge"
    for name, defaults in DEFAULTS.items():
        assert set(defaults) <= set(BUILT_IN[name].options), name


def test_every_field_arrives(tmp_path: Path) -> None:
    """Options by their kinds, references, weight; a JSON object is held as its text."""
    (numeric,) = read(tmp_path, row("numeric_match", weight=2.5, options={"tolerance": 0.01, "take": "first"}))
    assert (numeric.answers, numeric.weight) == (("9,500", "3"), 2.5)
    assert numeric.options == {"tolerance": 0.01, "take": "first"}
    (schema,) = read(tmp_path, row("json_schema"))
    assert json.loads(str(schema.options["schema"])) == {"type": "object", "maxProperties": 2}
    (instructed,) = read(tmp_path, row("instructions"))
    assert instructed.options == {"max_words": 5, "contains": ("x",)}
    (graded,) = read(tmp_path, row("f1", references=["x\r\ny", "x\ny", "z"], stop=["\n\n"]))
    assert (graded.references, graded.stop) == (("x\ny", "z"), ("\n\n",))
    (text,) = read(tmp_path, row("perplexity", cluster="book"))
    assert (text.prompt, text.template, text.cluster) == ("Once upon a time.", "raw", "book")


def test_a_conversation(tmp_path: Path) -> None:
    """Messages take the prompt's place; the prompt holds them as a person reads them."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "2+2="},
    ]
    (found,) = read(tmp_path, row("exact_match", prompt=..., messages=messages))
    assert found.messages[0] == ChatMessage(role="system", content="Be brief.")
    assert [one.role for one in found.messages] == ["system", "user", "assistant", "user"]
    assert found.prompt == "system: Be brief.\nuser: Hi\nassistant: Hello\nuser: 2+2="
    assert found.template == "chat"


USER = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"messages": [USER]}, "prompt: given beside messages"),
        ({"prompt": ..., "messages": [USER], "few_shot": "x"}, "few_shot: given beside messages"),
        ({"prompt": ..., "messages": [USER], "template": "raw"}, "template: raw has no place for messages"),
        ({"prompt": ..., "messages": []}, "messages: found an empty list"),
        ({"prompt": ..., "messages": "Hi"}, "messages: found the string 'Hi'"),
        ({"prompt": ..., "messages": ["Hi"]}, "messages[0]: found the string 'Hi'"),
        ({"prompt": ..., "messages": [{"role": "user"}]}, "messages[0].content: missing"),
        ({"prompt": ..., "messages": [{**USER, "contents": "x"}]}, "unknown key 'contents' (did you mean 'content'?)"),
        ({"prompt": ..., "messages": [{"role": "usr", "content": "x"}]}, "messages[0].role: found 'usr' (did you mean 'user'?)"),
        ({"prompt": ..., "messages": [{"role": "user", "content": ""}]}, "messages[0].content: empty"),
        ({"prompt": ..., "messages": [{"role": "user", "content": 3}]}, "messages[0].content: found the number 3"),
        ({"prompt": ..., "messages": [USER, {"role": "system", "content": "x"}]}, "messages[1].role: found 'system'"),
        ({"prompt": ..., "messages": [USER, {"role": "assistant", "content": "x"}]}, "the last message is the user's"),
    ],
)
def test_a_faulty_conversation_is_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    """Given beside a prompt, without a role or a text, or not ending with the user."""
    assert says in refused(tmp_path, row("exact_match", **changes))


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (0, "weight: found 0, expected a finite number above 0"),
        (-1.5, "weight: found -1.5"),
        ("2", "weight: found the string '2', expected a number"),
        (True, "weight: found a boolean"),
        (None, "weight: found null"),
    ],
)
def test_a_weight_is_finite_and_above_zero(tmp_path: Path, weight: object, says: str) -> None:
    """Zero would take an item out of the mean and leave it in the count."""
    assert says in refused(tmp_path, row("exact_match", weight=weight))


def test_a_weight_too_large_for_a_float_is_refused(tmp_path: Path) -> None:
    """1e400 would become infinity."""
    path = tmp_path / "set.jsonl"
    path.write_text('{"id": "a", "prompt": "p", "answer": "x", "weight": 1e400}', encoding="utf-8")
    with pytest.raises(GoldenSetError, match="weight: found"):
        golden.load(path)


@pytest.mark.parametrize(
    ("metric", "changes", "says"),
    [
        ("f1", {"answers": ["x"]}, "answers: not a key of f1 items, which have references, stop, max_new_tokens"),
        ("f1", {"references": ...}, "references: missing"),
        ("f1", {"references": []}, "references: an empty list"),
        ("f1", {"references": "x"}, "references: found the string 'x', expected a list"),
        ("f1", {"references": ["x", " "]}, "references[1]: empty"),
        ("f1", {"options": {}}, "options: not a key of f1 items"),
        ("f1", {"refrences": ["x"]}, "unknown key 'refrences' (did you mean 'references'?)"),
        ("exact_match", {"references": ["x"]}, "references: not a key of exact_match items"),
        ("multiple_choice_norm", {"answer": 2}, "answer: index 2 is out of range"),
        ("numeric_match", {"answers": ["nine"]}, "answers[0]: found 'nine', expected a number"),
        ("numeric_match", {"answers": ["12,"]}, "answers[0]: found '12,'"),
        ("numeric_match", {"answers": ..., "answer": "9 or 10"}, "answer: found '9 or 10', expected a number"),
        ("numeric_match", {"options": {"tolerence": 1}}, "options: unknown key 'tolerence' (did you mean 'tolerance'?)"),
        ("numeric_match", {"options": {"tolerance": -1}}, "options.tolerance: found -1"),
        ("numeric_match", {"options": {"tolerance": "1"}}, "options.tolerance: found the string '1'"),
        ("numeric_match", {"options": {"take": "lats"}}, "options.take: found 'lats' (did you mean 'last'?); allowed are last, first"),
        ("numeric_match", {"options": ["take"]}, "options: found a list, expected an object"),
        ("regex", {"options": ...}, "options.pattern: missing; regex items need it"),
        ("regex", {"options": {"pattern": "(a"}}, "options.pattern: '(a' is no regular expression: missing )"),
        ("regex", {"options": {"pattern": ""}}, "options.pattern: empty"),
        ("regex", {"options": {"pattern": "a", "ignore_case": "yes"}}, "options.ignore_case: found the string 'yes', expected true"),
        ("rouge", {"options": {"kind": "rouge3"}}, "options.kind: found 'rouge3'"),
        ("bleu", {"weight": 2}, "weight: not a key of bleu items"),
        ("json_schema", {"options": {"schema": "{}"}}, "options.schema: found the string '{}', expected an object"),
        ("instructions", {"options": ...}, "options: missing; instructions items need at least one of min_words"),
        ("instructions", {"options": {"contains": []}}, "options.contains: an empty list"),
        ("instructions", {"options": {"contains": ["x", 3]}}, "options.contains[1]: found the number 3"),
        ("instructions", {"options": {"max_words": 1.5}}, "options.max_words: found the decimal number 1.5"),
        ("perplexity", {"text": " "}, "text: empty"),
        ("perplexity", {"text": ..., "prompt": "p"}, "prompt: not a key of perplexity items, which have text"),
        ("perplexity", {"weight": 2}, "weight: not a key of perplexity items"),
        ("library", {"options": {"name": "n", "key": "k", "scale": "unit"}}, "options.direction: missing"),
        ("library", {"options": {"name": "n", "key": "k", "direction": "up", "scale": "unit"}}, "found 'up'; allowed are higher, lower"),
    ],
)
def test_a_faulty_item_of_a_metric_is_refused(tmp_path: Path, metric: str, changes: dict[str, Any], says: str) -> None:
    """Keys and options that the metric does not have, lacks, or has of another kind, with the field and near names."""
    assert says in refused(tmp_path, row(metric, **changes))


def test_a_script_is_pinned_by_its_digest(tmp_path: Path) -> None:
    """Found beside the items; a changed script is refused, so that the digest of the set covers it."""
    (tmp_path / "own.py").write_text("print('1')", encoding="utf-8")
    digest = hashlib.sha256(b"print('1')").hexdigest()
    options = {"path": "own.py", "key": "k", "direction": "lower", "scale": "unit"}
    assert f"options.sha256: missing; the digest of own.py is {digest}" in refused(tmp_path, row("library", options=options))
    (found,) = read(tmp_path, row("library", options={**options, "sha256": digest}))
    assert found.options["path"] == str(tmp_path / "own.py")
    (tmp_path / "own.py").write_text("print('2')", encoding="utf-8")
    assert "the file was changed" in refused(tmp_path, row("library", options={**options, "sha256": digest}))
    assert "cannot be read" in refused(tmp_path, row("library", options={**options, "path": "absent.py", "sha256": digest}))


def test_a_metric_of_another_distribution_brings_its_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class says which keys its items have; one that does not is refused, and so is a name that nothing answers to."""
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({"id": "a", "prompt": "p", "metric": "tone", "options": {"mood": "kind"}}), encoding="utf-8")
    with pytest.raises(GoldenSetError, match="metric: found 'tone'"):
        golden.load(path, plugins.item_keys)
    theirs = type("Tone", (), {"keys": ItemKeys(options={"mood": ("kind", "curt")})})
    monkeypatch.setattr(plugins, "known", lambda seam: {"tone": "their_metrics:Tone"})
    monkeypatch.setattr(plugins, "load", lambda seam, name: theirs)
    (found,) = golden.load(path, plugins.item_keys).items
    assert (found.metric, found.options) == ("tone", {"mood": "kind"})
    theirs.keys = None  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="does not say which keys"):
        golden.load(path, plugins.item_keys)


@pytest.mark.parametrize(("name", "items"), [("everyday", 664), ("smoke", 520)])
def test_sets_written_before_are_read_as_before(name: str, items: int) -> None:
    """The committed sets load under their manifests, with nothing new in any item."""
    found = golden.load(Path(__file__).parents[2] / "golden_sets" / name / "v1")
    assert len(found.items) == items
    for one in found.items:
        assert (one.messages, one.references, one.weight, one.options) == ((), (), 1.0, {})


def test_the_examples_of_the_manual_are_items(tmp_path: Path) -> None:
    """Every example line of the manual is read, fits its metric, and each metric has one."""
    manual = (Path(__file__).parents[2] / "docs" / "golden-sets.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```json\n(.*?)```", manual, flags=re.DOTALL) for line in block.splitlines()]
    found = read(tmp_path, *map(json.loads, lines))
    assert {one.metric for one in found} == set(BUILT_IN)
    for one in (each for each in found if each.metric != "library"):  # that one would be fetched
        assert plugins.load("metric", one.metric)().why_unfit(one) is None
    for metric, keys in BUILT_IN.items():
        (described,) = re.findall(rf"^\| `{metric}` \|[^|]*\|[^|]*\|(.*)\|$", manual, flags=re.MULTILINE)
        if metric != "library":
            assert [one for one in keys.options if f"`{one}`" not in described] == []
