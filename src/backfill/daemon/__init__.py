"""One queue at work: sockets, clock and processes around the engine. One daemon for each queue, the only writer.

`daemon` is the loop, `hosting` makes its pool, `door` has its lock and sockets, `connection` is one client, `link` its
side of planners and `planning` the process of one, `foreseen` the estimates that it has, `shown` the queue as clients
are shown it, `config` the settings, `clock` the clock that nobody sets, `backups` the copies of the store, `licences`
what their servers say, `notices` the commands that tell of the end of a job.
"""
