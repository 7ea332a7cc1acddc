"""What may be wrong with a golden set although each of its lines can be read. Standard library only."""
