"""Weights of an embedding model, which `memorist.embed.onnx_models` loads."""
