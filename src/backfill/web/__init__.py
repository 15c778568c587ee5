"""The page of the live queue, its REST interface, events and metrics: a process of its own that asks the daemon.

`process` runs it, `app` puts it together, `safety` decides which requests are answered, `link` asks the daemon,
`service` is the queue as the handlers use it, `rest` has the REST interface, `events` the stream of events, `logs` the
output of jobs, `pages` the page for people and `metrics` the text for Prometheus. Needs the extra `web`.
"""
