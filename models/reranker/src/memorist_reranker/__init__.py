"""Weights of a reranker; `memorist.embed.optional_models` knows what to do with them."""
