"""Telling others of changes: a queue for each hook, which lives in the store, and three ways to deliver.

`Dispatcher` takes new changes from the store into the queues of the hooks whose pattern fits and sends what is due.
`HookQueue` decides what is due: in order for each page, with back-off, within the hook's rate. A transport sends: a
webhook (`crawld.fetch.webhook`), a command or a notification by Apprise. What always holds: a change leaves the queue
in the store only after it was delivered or dropped, and the next change of its page is not sent before that.
"""
