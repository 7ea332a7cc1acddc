"""What of a report goes into MLflow beside its figures: the limit that binds."""

from __future__ import annotations

from dataclasses import replace

import samples
from quantgate.diagnosis import diagnose
from quantgate.sinks.mlflow_figures import run_tags
from quantgate.symptoms import Symptoms


def test_the_limit_is_a_tag() -> None:
    """The run's tag names the limit, or that it was not told; without a diagnosis there is no tag."""
    report = samples.sample_report()
    bound = diagnose(Symptoms(batch=8, failed_batch=16, mfu_share=0.1))
    assert run_tags(replace(report, diagnosis=bound), None)["limit"] == "memory-bound"
    assert run_tags(replace(report, diagnosis=diagnose(Symptoms(batch=8))), None)["limit"] == "abstain"
    assert "limit" not in run_tags(report, None)
