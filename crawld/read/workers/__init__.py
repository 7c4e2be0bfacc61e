"""Worker processes in which foreign bytes are read, so that they cost their own page and nothing else.

One *template* process imports the readers once and forks *workers* on request: a fork takes some milliseconds, so a
worker that exceeded a limit is killed and replaced without delay. A worker runs one *task* at a time, within
a limit of processor time and of memory that the kernel enforces. Tasks wait in a fair queue by their *payer*, the host
that sent the bytes: the one that cost least lately goes first. A task that turns out to be long leaves the short lane,
so that all others go on. See docs/security.md and docs/decisions/workers.md.
"""
