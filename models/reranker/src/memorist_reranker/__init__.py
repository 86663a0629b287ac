"""Weights of a reranker; `memorist.embed.further` knows what to do with them."""
