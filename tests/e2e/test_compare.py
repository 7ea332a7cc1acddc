"""``quantgate compare``: two stored runs, what moved between them, and the codes."""

from __future__ import annotations

import json
from pathlib import Path

from chain import CONTROL, REFERENCE, Chain, candidate, items, write_golden


def words(chain: Chain, *more: str) -> tuple[str | Path, ...]:
    return ("compare", *(one.name for one in chain.runs), "--reports", chain.reports, *more)


def test_two_nights(chain: Chain) -> None:
    """The same config twice: nothing moved, exit 0; every figure is there, as text and as JSON."""
    assert (chain.run().code, chain.run().code) == (0, 0)
    done = chain.cli(*words(chain))
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    for part in (
        "int8 sums:", "0 got worse, 0 got better, McNemar p 1.0; loss 0.0 points [", "weights: 130 MB, unchanged",
        "freed: 270 MB, unchanged", "batch ceiling:", "tokens/s at batch 2:", "KL from the reference on sums, nats:", "int2 (known-bad)",
    ):  # fmt: skip
        assert part in said, part
    found = json.loads(chain.cli(*words(chain, "--json")).out)
    assert [one["variant"] for one in found["variants"]] == ["float32", "int8", "int2"]
    assert found["variants"][1]["golden_sets"][0]["n"] == 240
    assert found["why_not"] is None


def test_a_variant_that_was_changed_is_named(chain: Chain) -> None:
    """Another option under the same name is not comparable; the rest is compared, so the code is 0."""
    assert chain.run().code == 0
    assert chain.run(variants=[REFERENCE, candidate("int8", error_rate=0.203), CONTROL]).code == 0
    done = chain.cli(*words(chain))
    assert done.code == 0
    assert "not comparable: error_rate is 0.202 in the first run and 0.203 in the second" in done.out


def test_another_golden_set_of_the_same_name_is_named(chain: Chain) -> None:
    """The digest of the questions decides, not their name."""
    assert chain.run().code == 0
    write_golden(chain.root / "golden" / "sums" / "v2", items(200))
    assert chain.run("--allow-underpowered", golden_sets=["golden/sums/v2"]).code in (0, 1, 3)
    done = chain.cli(*words(chain))
    assert done.code == 0
    assert "sums: not comparable: the golden set's digest is" in done.out


def test_runs_of_other_libraries_are_not_comparable(chain: Chain) -> None:
    """Nothing can be compared: the field is named, as text and as JSON, and the code is 4."""
    assert (chain.run().code, chain.run(provenance="fixed").code) == (0, 0)
    for more in ((), ("--json",)):
        done = chain.cli(*words(chain, *more))
        assert done.code == 4
        assert "not comparable: " in done.out and "in the first run and None in the second" in done.out


def test_runs_that_are_not_there(chain: Chain) -> None:
    """An unknown run is exit 2, one without evidence exit 4."""
    assert chain.run().code == 0
    unknown = chain.cli("compare", chain.last.name, "zzzz", "--reports", chain.reports)
    assert (unknown.code, "matches 'zzzz'" in unknown.err) == (2, True)
    (chain.last / "evidence.json").unlink()
    broken = chain.cli("compare", chain.last.name, chain.last.name, "--reports", chain.reports)
    assert (broken.code, "holds no evidence" in broken.err) == (4, True)
