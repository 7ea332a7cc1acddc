"""The whole chain on fakes: what is measured, what is decided, and that every place where it is told agrees."""

from __future__ import annotations

from typing import Any

import pytest

from chain import (
    CONTROL,
    REFERENCE,
    Chain,
    Done,
    candidate,
    junit_is_green,
    report_of,
    reused_of,
    stages_of,
    verdicts_of,
)

GOOD = candidate("int8")
COPY = candidate("copy", error_rate=0.2, weight_bytes=400_000_000, bits=None)
WORSE = candidate("int3", error_rate=0.32, bits=3)
UNCLEAR = candidate("int4", error_rate=0.245, bits=4)


def outcome(chain: Chain, done: Done) -> str:
    """The run's outcome, after report.json, junit.xml, the printed table and the exit code were found to say the same."""
    report = report_of(chain.last)
    assert report["exit_code"] == done.code
    assert junit_is_green(chain.last) == (done.code == 0)
    assert done.out.rstrip().endswith(f"exit {done.code}")
    assert (report["chosen"] is not None) == (done.code == 0) == report["promotion"]["promoted"]
    return str(report["outcome"])


def test_a_good_variant_passes_and_is_promoted(chain: Chain) -> None:
    """A variant that loses nothing and frees memory passes with exit 0, everywhere, and the alias moves to it."""
    done = chain.run()
    assert (done.code, outcome(chain, done)) == (0, "pass")
    assert verdicts_of(chain.last) == {"float32": "pass", "int8": "pass", "int2": "fail"}
    assert report_of(chain.last)["promotion"]["variant"] == "int8"
    assert "PASS" in done.out


@pytest.mark.parametrize(
    ("variants", "code", "word"),
    [
        ([REFERENCE, WORSE, CONTROL], 1, "fail"),
        ([REFERENCE, UNCLEAR, CONTROL], 3, "inconclusive"),
        ([REFERENCE, GOOD], 4, "not_measured"),
        ([REFERENCE, GOOD, {**CONTROL, "options": {"error_rate": 0.205}}], 4, "not_measured"),
        ([REFERENCE, GOOD, COPY, CONTROL], 0, "pass"),
    ],
    ids=["blocked", "inconclusive", "no control", "a control that passes", "one copy, one good"],
)
def test_every_outcome_has_its_code(chain: Chain, variants: list[Any], code: int, word: str) -> None:
    """Blocked is 1, unclear is 3, a control that is missing or does not fail is 4, and all places agree."""
    done = chain.run(variants=variants)
    assert (done.code, outcome(chain, done)) == (code, word), done.out


def test_all_candidates_are_required_under_all(chain: Chain) -> None:
    """Under require all one loser blocks the run although another candidate passes."""
    chain.policy(require="all", correction="none")
    done = chain.run(variants=[REFERENCE, GOOD, WORSE, CONTROL])
    assert (done.code, outcome(chain, done)) == (1, "fail")


@pytest.mark.parametrize("fault", ["crash", "refuse"])
@pytest.mark.parametrize(("require", "code"), [("any", 0), ("all", 4)])
def test_one_variant_that_fails_does_not_stop_the_others(chain: Chain, fault: str, require: str, code: int) -> None:
    """A variant that cannot be built is reported with its reason; the others are measured; under all the run is not measured."""
    chain.policy(require=require)
    done = chain.run(variants=[REFERENCE, candidate("broken", fault=fault), GOOD, CONTROL])
    assert done.code == code
    outcome(chain, done)
    assert verdicts_of(chain.last) == {"float32": "pass", "broken": "not_measured", "int8": "pass", "int2": "fail"}
    assert f"the fake quantizer was told to {'fail' if fault == 'crash' else 'refuse'}" in " ".join(
        report_of(chain.last)["sentences"]
    )


def test_a_variant_identical_to_the_reference_is_refused(chain: Chain) -> None:
    """Bit-equal weights mean that quantization was not applied: exit 4, not a pass with zero loss."""
    done = chain.run(variants=[REFERENCE, COPY, CONTROL])
    assert (done.code, outcome(chain, done)) == (4, "not_measured")
    assert "bit-equal" in " ".join(report_of(chain.last)["sentences"])


def test_non_finite_numbers_of_a_variant_fail_it(chain: Chain) -> None:
    """NaN that this session saw the variant produce, the reference being finite, is a fail: exit 1."""
    done = chain.run(variants=[REFERENCE, candidate("nan", fault="nonfinite"), CONTROL])
    assert (done.code, outcome(chain, done)) == (1, "fail")
    assert "NaN" in " ".join(report_of(chain.last)["sentences"])


def test_non_finite_numbers_of_the_reference_are_not_measured(chain: Chain) -> None:
    """NaN in the reference says nothing about any variant: exit 4."""
    done = chain.run(variants=[{**REFERENCE, "options": {"fault": "nonfinite"}}, GOOD, CONTROL])
    assert (done.code, outcome(chain, done)) == (4, "not_measured")


def test_a_reference_that_cannot_be_built_ends_the_run(chain: Chain) -> None:
    """Without a reference nothing is measured: exit 4, the reason is printed, no report pretends anything."""
    done = chain.run(variants=[{**REFERENCE, "options": {"fault": "crash"}}, GOOD, CONTROL])
    assert done.code == 4
    assert "the reference could not be prepared: the fake quantizer was told to fail" in done.err
    assert not (chain.last / "report.json").exists()


def test_a_second_run_uses_what_did_not_change(chain: Chain) -> None:
    """Quality and ceiling of an unchanged variant are taken from the first run; speed never is."""
    assert chain.run().code == 0
    first = chain.last
    assert reused_of(first)["int8"] == []
    done = chain.run()
    assert done.code == 0
    assert reused_of(chain.last) == stages_of(first)
    assert {"quantize", "load", "score sums", "capacity"} <= set(reused_of(chain.last)["int8"])
    assert done.err.count("reused, unchanged") == sum(map(len, stages_of(first).values()))


def test_fresh_measures_everything_again(chain: Chain) -> None:
    """--fresh reads nothing of earlier runs."""
    assert chain.run().code == 0
    assert chain.run("--fresh").code == 0
    assert all(stages == [] for stages in reused_of(chain.last).values())


def test_a_changed_variant_is_measured_again(chain: Chain) -> None:
    """A result is used again only where everything that it depends on is equal."""
    assert chain.run().code == 0
    assert chain.run(variants=[REFERENCE, candidate("int8", error_rate=0.203), CONTROL]).code == 0
    assert reused_of(chain.last)["int8"] == []
    assert reused_of(chain.last)["float32"] == stages_of(chain.last)["float32"]


def test_a_smoke_run_loads_no_torch_and_no_mlflow(chain: Chain) -> None:
    """The chain on fakes needs none of the heavy libraries, neither in the run nor in a worker."""
    import subprocess
    import sys

    chain.config(executor="process")
    code = (
        "import sys; from quantgate import cli, worker; code = cli.main(['run', 'run.yaml', '--ci'])\n"
        "import quantgate.engines.fake, quantgate.quantizers.fake, quantgate.devices.fake\n"
        "heavy = {'torch', 'mlflow', 'transformers', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=chain.root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
