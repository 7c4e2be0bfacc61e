"""State that workers share beside the pages: leases, grants, fences, mail, settings. Front door: `ledger.py`."""
