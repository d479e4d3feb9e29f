"""One invented life in forty episodes with its truth, told by a script or read by a real model.

`python -m tests.life live` and `python -m tests.life score` measure a real model against the truth.
"""
