"""Rules of a run config that span keys, each with the line at which it is broken."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

from quantgate import plugins
from quantgate.config import translate
from quantgate.config.document import Document
from quantgate.config.policy import FOR_COST, UNCORRECTED, policy_error, uncorrected
from quantgate.config.run_sections import CalibrationSection, DrafterSection, LengthsSection, ModelSection, RunSection
from quantgate.config.sections import NAME
from quantgate.config.translate import CALIBRATED
from quantgate.errors import ConfigError, UnknownPlugin
from quantgate.names import check_alias
from quantgate.records import MAIN, Policy


def check_sources(raw: RunSection, document: Document) -> None:
    """The model comes from one place, and one of a hub is pinned."""
    _check_source(raw.model, document, ("model",))


def _check_source(model: ModelSection, document: Document, where: tuple[str | int, ...]) -> None:
    given = [key for key in ("path", "hub", "package") if getattr(model, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise document.error(where, f"the model needs exactly one of path, hub or package; found {found}")
    if model.hub is not None and model.revision is None:
        what = "a hub model needs 'revision': the commit that is to be measured, so that it can be found again"
        raise document.error((*where, "hub"), what)


def check_golden_sets(raw: RunSection, document: Document) -> None:
    """A golden set is a path or one source; a hub's dataset is pinned, and a set's name can be a file's."""
    for index, one in enumerate(raw.golden_sets):
        if isinstance(one, str):
            continue
        where: tuple[str | int, ...] = ("golden_sets", index)
        if (one.datasets is None) == (one.lm_eval is None):
            raise document.error(where, "a golden set is a path, or one of 'datasets' and 'lm_eval'")
        if one.datasets is not None:
            given = [key for key in ("path", "hub") if getattr(one.datasets, key) is not None]
            if len(given) != 1:
                found = " and ".join(given) if given else "none"
                raise document.error((*where, "datasets"), f"a dataset needs exactly one of path and hub; found {found}")
            if one.datasets.hub is not None and one.datasets.revision is None:
                what = "a hub dataset needs 'revision': the commit that is to be asked, so that it can be found again"
                raise document.error((*where, "datasets", "hub"), what)
        if one.lm_eval is not None and one.lm_eval.name is None and not re.match(NAME, translate.golden_set(one, Path()).name):
            what = "the tasks make no name for reports; give the golden set a 'name'"
            raise document.error((*where, "lm_eval"), what)


def check_variants(raw: RunSection, document: Document, base: Path) -> None:
    """Names of their own, one reference in full, a candidate, and interpreters that are there."""
    names = [variant.name for variant in raw.variants]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise document.error(
                ("variants", index, "name"), f"two variants are named '{name}'; each needs a name of its own"
            )
    references = [index for index, variant in enumerate(raw.variants) if variant.role == "reference"]
    if len(references) != 1:
        raise document.error(("variants",), f"exactly one variant must have 'role: reference'; found {len(references)}")
    if raw.variants[references[0]].bits is not None:
        raise document.error(
            ("variants", references[0], "bits"), "the reference is the unquantized model and has no 'bits'"
        )
    for index, variant in enumerate(raw.variants):
        if variant.role == "identity" and variant.bits is not None:
            raise document.error(("variants", index, "bits"), "the identity control is the reference again and has no 'bits'")
        if variant.python is not None and not translate.interpreter(base, variant.python).is_file():
            what = f"there is no interpreter {translate.interpreter(base, variant.python)}"
            raise document.error(("variants", index, "python"), what)
    for index, variant in enumerate(raw.variants):
        if variant.kv_cache is not None and variant.role in ("reference", "identity"):
            what = f"the {variant.role} is the unquantized model and keeps its cache in float; give 'kv_cache' to a candidate"
            raise document.error(("variants", index, "kv_cache"), what)
    if raw.variants[references[0]].measure != "all":
        what = "the reference is measured in full: every other figure is compared with its own"
        raise document.error(("variants", references[0], "measure"), what)
    if not any(variant.role == "candidate" for variant in raw.variants):
        raise document.error(("variants",), "no variant has 'role: candidate': there is nothing to promote")


def check_calibration(raw: RunSection, document: Document) -> None:
    """Every set that is named can be found again, and whoever needs one has one."""
    named: list[tuple[tuple[str | int, ...], CalibrationSection | None]] = [(("calibration",), raw.calibration)]
    named += [(("variants", index, "calibration"), one.calibration) for index, one in enumerate(raw.variants)]
    for where, one in named:
        if one is None:
            continue
        if (one.file is None) == (one.dataset is None):
            raise document.error(where, "a calibration set needs exactly one of file and dataset")
        if one.dataset is not None and not one.dataset.startswith((".", "/", "~")) and one.revision is None:
            what = "a calibration dataset needs 'revision': the commit that is meant, so that it can be found again"
            raise document.error((*where, "dataset"), what)
    for index, variant in enumerate(raw.variants):
        if variant.quantizer in CALIBRATED and variant.calibration is None and raw.calibration is None:
            what = f"quantizer '{variant.quantizer}' learns from texts: add 'calibration' with a file, for the run or for this variant"
            raise document.error(("variants", index, "quantizer"), what)


def check_texts(raw: RunSection, document: Document, base: Path) -> None:
    """The file's name becomes part of checks' names and of paths, so it obeys the rule of names."""
    if raw.divergence is None:
        return
    path = translate.resolved(base, raw.divergence.texts)
    if not path.is_file():
        raise document.error(("divergence", "texts"), f"there is no file of texts {path}")
    if not re.match(NAME, path.stem):
        what = f"the file's name '{path.stem}' names the check: letters, digits, '.', '_' and '-' are allowed; rename the file"
        raise document.error(("divergence", "texts"), what)


def check_baseline(raw: RunSection, document: Document) -> None:
    """Limits for every golden set are shares; those of one alone may be in the unit of scores without bounds."""
    if raw.baseline is None:
        return
    for key in ("max_loss", "max_gain", "max_flips"):
        value = getattr(raw.baseline, key)
        if value is not None and value > 1:
            meant = f"; write {value / 100:g} for {value:g} %" if value <= 100 else ""
            raise document.error(("baseline", key), f"{key}: a share is at most 1; found {value:g}{meant}")
    for name, one in raw.baseline.limits.items():
        if one.max_flips is not None and one.max_flips > 1:
            what = f"max_flips: a share is at most 1; found {one.max_flips:g}"
            raise document.error(("baseline", "limits", name, "max_flips"), what)


def check_batching(raw: RunSection, document: Document) -> None:
    """Requests of one source, lengths in order, each engine and pattern once, variants that the run has."""
    found, where = raw.levers.batching, ("levers", "batching")
    if found is None:
        return
    if (found.requests is None) == (found.drawn is None):
        what = "the requests come from one of 'requests', a file, and 'drawn', lengths from a distribution"
        raise document.error(where, f"{what}; found {'neither' if found.requests is None else 'both'}")
    for key in ("prompt_tokens", "output_tokens"):
        lengths = None if found.drawn is None else getattr(found.drawn, key)
        if isinstance(lengths, LengthsSection):
            _check_lengths(lengths, document, (*where, "drawn", key))
    for key, names in (("engines", [one.name for one in found.engines]), ("variants", found.variants or [])):
        for index, name in enumerate(names):
            if name in names[:index]:
                raise document.error((*where, key, index), f"'{name}' stands twice")
    arrivals = [translate.arrivals(one) for one in found.arrivals]
    for index, one in enumerate(arrivals):
        if one in arrivals[:index]:
            raise document.error((*where, "arrivals", index), f"'{one.label}' stands twice")
    known = [variant.name for variant in raw.variants]
    for index, name in enumerate(found.variants or []):
        if name not in known:
            raise document.error((*where, "variants", index), f"the run has no variant '{name}': {_nearest(name, known)}")


def _check_lengths(lengths: LengthsSection, document: Document, where: tuple[str | int, ...]) -> None:
    if (lengths.uniform is None) == (lengths.lognormal is None):
        raise document.error(where, "lengths are a number, 'uniform' or 'lognormal'")
    least, most = (lengths.lognormal.least, lengths.lognormal.most) if lengths.lognormal else lengths.uniform or (1, 1)
    if least > most:
        raise document.error(where, f"the shortest length {least} lies above the longest {most}")


def check_speculation(raw: RunSection, document: Document, base: Path) -> None:
    """Greedy decoding, prompts from one place, and drafters that are there."""
    if (asked := raw.levers.speculation) is None:
        return
    where: tuple[str | int, ...] = ("levers", "speculation")
    if asked.decoding == "sampling":
        what = (
            "speculation is measured with greedy decoding: under sampling a draft must be accepted by the very distribution that it was "
            "drawn from, and these drafters give one token and no distribution; write 'decoding: greedy', or leave it out"
        )
        raise document.error((*where, "decoding"), what)
    if (asked.prompts.golden_set is None) == (asked.prompts.file is None):
        raise document.error((*where, "prompts"), "prompts come from exactly one of golden_set and file")
    if asked.prompts.file is not None and not translate.resolved(base, asked.prompts.file).is_file():
        raise document.error((*where, "prompts", "file"), f"there is no file of prompts {translate.resolved(base, asked.prompts.file)}")
    names: list[str] = []
    for index, one in enumerate(asked.drafters):
        _check_drafter(one, raw, document, (*where, "drafters", index))
        if (name := translate.drafter(one, base).name) in names:
            raise document.error((*where, "drafters", index), f"drafter {name} stands twice; once is enough")
        names.append(name)


def _check_drafter(one: str | DrafterSection, raw: RunSection, document: Document, where: tuple[str | int, ...]) -> None:
    if isinstance(one, str):
        return
    if (one.self is None) == (one.model is None):
        raise document.error(where, "a drafter is 'prompt_lookup', or exactly one of 'self: VARIANT' and 'model: {...}'")
    if one.model is not None:
        _check_source(one.model, document, (*where, "model"))
        return
    roles = {variant.name: variant.role for variant in raw.variants}
    others = [name for name, role in roles.items() if role != "reference"]
    if one.self not in roles:
        raise document.error((*where, "self"), f"the run has no variant '{one.self}' to draft: {_nearest(one.self or '', others)}")
    if roles[one.self] == "reference":
        what = f"'{one.self}' is the reference, which is drafted for; another variant drafts: {', '.join(others)}"
        raise document.error((*where, "self"), what)
    found = next(variant for variant in raw.variants if variant.name == one.self)
    if found.kv_cache is not None:
        what = f"variant '{one.self}' keeps its cache in fewer bits, and drafts have to be taken back out of it; name another one"
        raise document.error((*where, "self"), what)
    if found.python is not None:
        what = f"variant '{one.self}' has an interpreter of its own, and a drafter stands in the reference's process; name another one"
        raise document.error((*where, "self"), what)


def check_names(raw: RunSection, document: Document) -> None:
    """Every plugin name and the alias, before hours are spent."""
    asked: list[tuple[tuple[str | int, ...], str, str]] = [
        (("device", "kind"), "device", raw.device.kind),
        (("engine",), "engine", raw.engine),
        (("executor",), "executor", raw.executor),
        (("promotion", "registry"), "registry", raw.promotion.registry),
    ]
    asked += [(("variants", i, "quantizer"), "quantizer", one.quantizer) for i, one in enumerate(raw.variants)]
    asked += [(("sinks", i), "sink", one) for i, one in enumerate(raw.sinks)]
    batching = raw.levers.batching
    asked += [(("levers", "batching", "engines", i), "batcher", one.name) for i, one in enumerate(batching.engines if batching else [])]
    for where, seam, name in asked:
        try:
            plugins.check(seam, name)
        except UnknownPlugin as error:
            raise document.error(where, str(error)) from error
    _check_aliases(raw, document)


def _check_aliases(raw: RunSection, document: Document) -> None:
    """The champion's alias and the challenger's: allowed names, and two of them."""
    for key, name in (("alias", raw.promotion.alias), ("challenger", raw.promotion.challenger)):
        try:
            if name is not None:
                check_alias(name)
        except ConfigError as error:
            raise document.error(("promotion", key), error.what) from error
    if raw.promotion.challenger == raw.promotion.alias:
        what = f"the candidate on trial cannot have the alias of the one that is out, '{raw.promotion.alias}': name another"
        raise document.error(("promotion", "challenger"), what)


def check_provenance(raw: RunSection, document: Document) -> None:
    """A fixed fingerprint is for fakes alone."""
    if raw.provenance == "fixed" and (raw.device.kind, raw.engine) != ("fake", "fake"):
        what = "provenance 'fixed' hides the machine and is for runs with the fake device and the fake engine; leave it out here"
        raise document.error(("provenance",), what)


def check_chances(raw: RunSection, policy: Policy, path: Path) -> None:
    """Several candidates for one promotion are several chances to pass by luck, and the policy must say how they are corrected."""
    refuse_uncorrected(policy, sum(variant.role == "candidate" for variant in raw.variants), path)


def refuse_uncorrected(policy: Policy, chances: int, path: Path) -> None:
    """Refuse a policy, with its file and line, under which several candidates have a chance each."""
    if uncorrected(policy, chances):
        raise policy_error(path, ("correction",), UNCORRECTED.format(chances))


def check_candidates(raw: RunSection, policy: Policy, path: Path) -> None:
    """The candidates that a policy names are those of the run."""
    candidates = [variant.name for variant in raw.variants if variant.role == "candidate"]
    if policy.correction == "fixed_sequence":
        for index, name in enumerate(policy.order):
            if name not in candidates:
                raise policy_error(path, ("order", index), f"'{name}' is no candidate of the run: {_nearest(name, candidates)}")
        for name in candidates:
            if name not in policy.order:
                what = f"candidate '{name}' has no place in the order; each needs one before anything is measured"
                raise policy_error(path, ("order",), what)
    if policy.family_size is not None and policy.family_size < len(candidates):
        what = f"{len(candidates)} candidates compete in the run, and the policy counts {policy.family_size}"
        raise policy_error(path, ("family_size",), what)
    roles = {variant.name: variant.role for variant in raw.variants}
    for index, waiver in enumerate(policy.waivers):
        if (role := roles.get(waiver.variant)) is None:
            what = f"the run has no variant '{waiver.variant}': {_nearest(waiver.variant, candidates)}"
            raise policy_error(path, ("waivers", index, "variant"), what)
        if role != "candidate":
            what = f"'{waiver.variant}' has the role {role}; only a candidate's checks can be waived"
            raise policy_error(path, ("waivers", index, "variant"), what)


def check_workloads(raw: RunSection, document: Document, policy: Policy, path: Path) -> None:
    """Each workload has a name of its own, and those that a policy names are there."""
    names = [MAIN, *(one.name for one in raw.workloads)]
    for index, one in enumerate(raw.workloads):
        if one.name in names[: index + 1]:
            who = "the run's own workload" if one.name == MAIN else "another workload"
            what = f"{who} has the name '{one.name}' already; give this one another"
            raise document.error(("workloads", index, "name"), what)
    for index, rule in enumerate(policy.checks):
        if rule.workload not in names:
            what = f"the run has no workload '{rule.workload}': {_nearest(rule.workload, names)}"
            raise policy_error(path, ("checks", index, "workload"), what)


def check_cost(raw: RunSection, policy: Policy, path: Path) -> None:
    """A required check on cost needs a price: without one the run would end as not measured, after all of its time."""
    if raw.device.price_per_hour is not None:
        return
    for index, rule in enumerate(policy.checks):
        if rule.kind in FOR_COST and rule.tier == "required":
            what = f"{rule.kind} needs the device's price: give the config 'price_per_hour' under 'device', or make the check advisory"
            raise policy_error(path, ("checks", index, "kind"), what)


def _nearest(name: str, known: list[str]) -> str:
    nearest = get_close_matches(name, known, n=1)
    hint = f"did you mean '{nearest[0]}'? " if nearest else ""
    return f"{hint}known are {', '.join(known)}"
