"""The papers' policies. Front door: `policies.py`, the table of policies by name.

Nouns: an *allocation*, the best rates for an objective and a bandwidth; an *order*, visits at given rates;
the *rate chooser*, which visits pages at allotted rates slot by slot; its *window queue*.

Invariants: rates sum to the bandwidth; of an allocation's pages one more visit is worth the same to each that is
visited. A policy of values is a valuation behind the frontier, a policy of rates an allocation behind the rate chooser.
"""
