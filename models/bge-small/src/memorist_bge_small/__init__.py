"""Weights of an embedding model, which `memorist.embed.optional_models` loads."""
