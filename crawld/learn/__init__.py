"""Histories in, beliefs out. Front door: `online_learner.py`.

Nouns: an *observation*, one interval between two crawls with its signals and whether it ended changed; the *posterior*
of α and κ, on a grid or as a Gamma; the *host prior*, what a host's pages say about the next one; the *host clock*,
which runs faster while a host's pages change together; the *mixture*, which weighs rival predictors; *freshness*, what
all of this says of a copy.

Invariants: what is learnt depends on the histories alone and not on how they were cut into batches, but for the order
in which priors move; nothing here reads a clock or a store.
"""
