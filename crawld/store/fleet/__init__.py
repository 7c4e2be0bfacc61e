"""What the workers of a fleet share beside the pages: who lives, who holds what, who may send how much, and mail.

PostgreSQL only (docs/fleet.md). Every verb of the ledger is made of statements that each stand alone, so that a worker
which stops in the middle of one keeps nobody waiting. Front door: `ledger.py`.
"""
