"""Weights of a reranker, which `memorist.embed.optional_models` loads."""
