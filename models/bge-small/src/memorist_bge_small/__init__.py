"""Weights of a model for vectors; `memorist.embed.further` knows what to do with them."""
