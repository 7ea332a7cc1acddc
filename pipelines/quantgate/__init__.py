"""quantgate measures quantized variants of a language model and decides whether one may go out."""

from quantgate.kvcache import kv_cache_gb, max_batch_from_memory

__all__ = ["kv_cache_gb", "max_batch_from_memory"]
