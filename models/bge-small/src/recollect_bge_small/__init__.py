"""Weights of a model for vectors; `recollect.embed.further` knows what to do with them."""
