"""The daemon of one queue: sockets, clock and processes around the engine. Each queue has one, the only writer.

`daemon` is the loop, `hosting` creates its pool, `door` has its lock and sockets, `connection` serves one client,
`link` is its side of planners and `planning` the process of one, `foreseen` keeps estimates, `shown` presents the queue
to clients, `config` holds the settings, `clock` the clock that never steps, `backups` copies the store, `licences` asks
licence servers, `notices` runs commands when jobs end.
"""
