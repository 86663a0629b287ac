"""Weights of a model for vectors; `memorist.embed.optional_models` knows what to do with them."""
