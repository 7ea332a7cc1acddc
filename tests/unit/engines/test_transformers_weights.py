"""What is done to a loaded model's tensors before anything is measured."""

from __future__ import annotations

import torch

from quantgate.engines.transformers_weights import own_memory


def test_a_copy_is_never_taken_for_an_earlier_original() -> None:
    """Tensors that are listed more than once keep their own values, also where copies land on addresses that were just freed."""
    for _ in range(20):
        module = torch.nn.Module()
        for at in range(200):
            module.register_buffer(f"state{at}", torch.full((64,), float(at)))
            vars(module)[f"again{at}"] = module.get_buffer(f"state{at}")
        own_memory(module)
        assert [float(module.get_buffer(f"state{at}")[0]) for at in range(200)] == [float(at) for at in range(200)]
