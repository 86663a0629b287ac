"""Weights of a reranker; `recollect.embed.further` knows what to do with them."""
