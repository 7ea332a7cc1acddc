"""What is refused before anything is measured: golden sets that do not fit the config, the policy, or what they are to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from quantgate import golden, golden_items, plugins
from quantgate.config import RunConfig, policy_error
from quantgate.errors import ConfigError, EngineError, GoldenSetError, MissingExtra
from quantgate.hygiene.sets import same_questions
from quantgate.ports import Metric
from quantgate.records import GoldenItem, GoldenSet
from quantgate.stages import plan, scales
from quantgate.stages.figures import weight_fault
from quantgate.stats.power import items_needed

LEAST_POWER = 0.7


def check(goldens: tuple[GoldenSet, ...], config: RunConfig, *, allow_underpowered: bool) -> None:
    """Raise ``ConfigError`` or ``GoldenSetError`` where the sets share a name, cannot be scored, or could not show what is asked."""
    names = [one.name for one in goldens]
    if len(set(names)) < len(names):
        raise ConfigError(f"two golden sets have the same name: {', '.join(names)}", file=str(config.path))
    _check_limits(names, config)
    for each in goldens:
        _check_items(each, config) if each.harness is None else _check_harness(each, config)
    if (unequal := weight_fault(config.policy, goldens)) is not None:
        raise ConfigError(unequal, file=str(config.policy_path))
    references = tuple(golden.reference_of(one) for one in goldens)
    texts_name = None if config.divergence is None else config.divergence.name
    if texts_name in names:
        raise ConfigError(f"the texts of 'divergence' and a golden set have the same name: {texts_name}", file=str(config.path))
    if (fault := plan.fault(config.policy, references, texts_name)) is not None:
        raise policy_error(config.policy_path, fault.where, fault.what)
    for question in plan.questions(config.policy, references, len(config.candidates)):
        if question.rule.tier == "required" and not allow_underpowered:
            _check_power(question, config)
            if (noisy := plan.why_noisy(question, config.policy)) is not None:
                raise ConfigError(noisy, file=str(config.policy_path))


def _check_limits(names: Sequence[str], config: RunConfig) -> None:
    """A baseline's limits for one golden set name a set of the run."""
    for one in () if config.baseline is None else config.baseline.limits:
        if one.golden_set not in ("*", *names):
            what = f"the run has no golden set '{one.golden_set}'; its own are {', '.join(names)}"
            raise policy_error(config.path, ("baseline", "limits", one.golden_set), what)


def _check_items(one: GoldenSet, config: RunConfig) -> None:
    """Refuse items that no model could get right, that contradict each other, or whose scores cannot be judged together."""
    metrics: dict[str, Metric] = {name: plugins.load("metric", name)() for name in {item.metric for item in one.items}}
    faults = _unfit(one.items, metrics)
    against = (found for found in same_questions(one.items) if found.severity == "fault")
    faults += [(found.line, f"{found.field}: {found.what}; {found.advice}") for found in against]
    if faults:
        raise golden_items.together(_each_kind_once(faults), _place(one))
    try:
        scale, _ = scales.stated(metrics[item.metric].info_of(item) for item in one.items)
    except EngineError as error:
        raise GoldenSetError(str(error), file=_place(one)) from error
    if scale == "unbounded":
        _check_unbounded(one, config)
    for rule in config.policy.checks:
        if scale != "unbounded" and rule.scale == "unbounded" and rule.tier == "required" and rule.golden_set in ("*", one.name):
            what = f"golden set {one.label} has scores with bounds, and a quality check says 'scale: unbounded' of it"
            raise ConfigError(f"{what}; let the check name the golden sets it is for", file=str(config.policy_path))


def unfit(items: Sequence[GoldenItem]) -> tuple[list[tuple[int, str]], list[str]]:
    """Faults that only metrics can tell, with their lines; and which metrics could not be asked, as their library is not installed."""
    metrics: dict[str, Metric] = {}
    missing = []
    for name in dict.fromkeys(item.metric for item in items):
        try:
            metrics[name] = plugins.load("metric", name)()
        except MissingExtra as error:
            missing.append(str(error))
    asked = [item for item in items if item.metric in metrics]
    faults = _unfit(asked, metrics)
    try:
        scales.stated(metrics[item.metric].info_of(item) for item in asked)
    except EngineError as error:
        faults.append((0, str(error)))
    return faults, missing


def _unfit(items: Sequence[GoldenItem], metrics: Mapping[str, Metric]) -> list[tuple[int, str]]:
    return [(item.line, reason) for item in items if (reason := metrics[item.metric].why_unfit(item)) is not None]


def _check_unbounded(one: GoldenSet, config: RunConfig) -> None:
    """A required check that takes unbounded scores for bounded ones would end without a decision."""
    for question in plan.questions(config.policy, (golden.reference_of(one),), len(config.candidates)):
        if question.rule.tier == "required":
            what = f"golden set {one.label} has scores without bounds, and {question.check} takes them for scores in 0 to 1"
            advice = "write 'scale: unbounded' with a margin in the score's own unit, or let the check name the golden sets it is for"
            raise ConfigError(f"{what}; {advice}", file=str(config.policy_path))


def _place(one: GoldenSet) -> str:
    return str(Path(one.path) / golden.ITEMS_FILE if Path(one.path).is_dir() else f"golden set {one.name}, {one.path}")


def _each_kind_once(faults: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The first line of each fault that is told in the same words, with how many more lines have it."""
    first: dict[str, int] = {}
    count: dict[str, int] = {}
    for line, what in faults:
        first.setdefault(what, line)
        count[what] = count.get(what, 0) + 1
    told = [(line, what if count[what] == 1 else f"{what} (and {count[what] - 1} more lines)") for what, line in first.items()]
    return told[: golden_items.MAX_FAULTS]


def _check_harness(one: GoldenSet, config: RunConfig) -> None:
    """A task of lm-evaluation-harness is scored whole, by its own code: it has no looks in between."""
    if config.policy.looks is not None or config.policy.sequential is not None:
        what = f"golden set {one.name} is a task of lm-evaluation-harness, scored whole; take looks or sequential out of the policy"
        raise ConfigError(what, file=str(config.policy_path))


def _check_power(question: plan.Question, config: RunConfig) -> None:
    policy, margin, alpha = config.policy, question.margin, question.level
    reached = plan.chance(question, policy, policy.planning_flip_rate, alpha)
    if reached >= LEAST_POWER:
        return
    chances = round(policy.alpha / alpha)
    needed = items_needed(flip_rate=policy.planning_flip_rate, margin=margin, alpha=alpha, power=policy.power)
    raise ConfigError(
        f"golden set {question.golden} has {question.items} items: a variant that loses nothing would pass a margin of "
        f"{margin * 100:g} points with probability {reached:.2f} only (flip rate {policy.planning_flip_rate:g}, {chances} candidates); "
        f"about {needed} items are needed, or a wider margin, or --allow-underpowered",
        file=str(config.policy_path),
    )
