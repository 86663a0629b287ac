"""
Evaluate: how well memories are found.

Decisions and their reasons:

- The database of an evaluation set is identified by what the model is given of its documents. Whoever changes what is
  embedded measures the change, without having to raise a version.
"""
