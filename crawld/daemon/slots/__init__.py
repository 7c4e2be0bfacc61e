"""Who gets a slot, and what became of each: shares, limits of unproven hosts, further requests, idle slots."""
