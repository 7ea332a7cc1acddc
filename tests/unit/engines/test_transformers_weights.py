"""What is done to a loaded model's tensors before anything is measured."""

from __future__ import annotations

import pytest
import torch

from quantgate.engines.transformers_weights import digest, logical_parameters, own_memory, quantized_parameters
from quantgate.errors import NumericallyInvalid


def test_a_copy_is_never_taken_for_an_earlier_original() -> None:
    """Tensors that are listed more than once keep their own values, also where copies land on addresses that were just freed."""
    for _ in range(20):
        module = torch.nn.Module()
        for at in range(200):
            module.register_buffer(f"state{at}", torch.full((64,), float(at)))
            vars(module)[f"again{at}"] = module.get_buffer(f"state{at}")
        own_memory(module)
        assert [float(module.get_buffer(f"state{at}")[0]) for at in range(200)] == [float(at) for at in range(200)]


class _LaidOut(torch.nn.Module):
    """A packed layer as a kernel of a GPU leaves it: nothing gives its weights back."""

    def __init__(self, word: int = 7, scale: float = 1.0) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = 64, 32, None
        self.register_buffer("scales", torch.full((2, 32), scale, dtype=torch.bfloat16))
        self.qweight = torch.nn.Parameter(torch.full((8, 32), word, dtype=torch.int32), requires_grad=False)


def test_weights_that_nothing_unpacks_are_digested_as_they_lie() -> None:
    """The same words give the same digest, other words another one, a scale that is not finite an error; parameters are logical ones."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False), _LaidOut())
    assert logical_parameters(model) == 64 * 64 + 64 * 32
    assert quantized_parameters([model[1]]) == 64 * 32
    digests = [digest(torch.nn.Sequential(one)) for one in (_LaidOut(), _LaidOut(), _LaidOut(word=8), _LaidOut(scale=2.0))]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    with pytest.raises(NumericallyInvalid, match=r"0\.scales"):
        digest(torch.nn.Sequential(_LaidOut(scale=float("nan"))))
