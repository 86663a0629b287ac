"""Weights of a reranker, which `memorist.embed.onnx_models` loads."""
