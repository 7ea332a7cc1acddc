"""One variant under judgement, and how its evidence is looked up."""

from __future__ import annotations

from dataclasses import dataclass

from quantgate.records import (
    BatchingRun,
    Budget,
    Check,
    GoldenReference,
    Policy,
    Price,
    Roofs,
    ScoreSheet,
    SpeculationRun,
    VariantEvidence,
    Waiver,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """One variant under judgement, with everything a check may look at."""

    variant: VariantEvidence
    reference: VariantEvidence
    others: tuple[VariantEvidence, ...]
    """The other variants of the run, identity controls left out."""
    golden_sets: tuple[GoldenReference, ...]
    policy: Policy
    waivers: tuple[Waiver, ...] = ()
    """Those of the policy that are for this variant and hold on the run's own date."""
    identities: tuple[VariantEvidence, ...] = ()
    """The identity controls of the run: the reference again."""
    baseline: tuple[Check, ...] = ()
    """Of the reference: what comparing it with the pinned one gave. Of a candidate: that it is not judged where that went wrong."""
    batching: tuple[BatchingRun, ...] = ()
    """Its runs of the continuous batching lever."""
    speculation: tuple[SpeculationRun, ...] = ()
    """What was measured of speculative decoding of the reference, a drafter each."""
    price: Price | None = None
    budget: Budget | None = None
    roofs: Roofs | None = None
    """What the device can do at most: a speed above it decides nothing."""

    @property
    def candidates(self) -> tuple[VariantEvidence, ...]:
        """The candidates of the run, this variant included where it is one."""
        return tuple(one for one in (self.variant, *self.others) if one.variant.role == "candidate")

    def chosen(self, golden_set: str) -> tuple[GoldenReference, ...]:
        """The golden sets that a rule means: one by name, or all for ``*``."""
        return tuple(one for one in self.golden_sets if golden_set in ("*", one.name))


def sheet_of(one: VariantEvidence, golden: GoldenReference) -> ScoreSheet | None:
    """The variant's sheet on a golden set; None where there is none, or where there are two and nobody knows which one counts."""
    found = [sheet for sheet in one.sheets if sheet.golden_sha256 == golden.sha256]
    return found[0] if len(found) == 1 else None


def one_line(message: str) -> str:
    """Somebody else's message inside a sentence of ours: on one line, without its full stop."""
    return " ".join(message.split()).rstrip(".")
