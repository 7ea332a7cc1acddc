"""quantgate measures quantized variants of a language model and decides whether one may go out."""
