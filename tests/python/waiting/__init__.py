"""The waiting matrix: what an agent used before it asks, times how it waits for the answer, times who runs it.

An agent that asks a person is rarely alone with its question. It has awaited threads, sockets and child processes
before, it holds connections whose readers wait for as long as they live, and its question stands behind a `gather`, a
queue or an event. None of that is work, so the turn has to be told from one that is at work: `hitl.run` returns, a
server frees its place and parks the turn. A request in flight in the body of a step is work, so that turn stays.

- `agent.py` is the one agent of all cells. Its message, JSON, says which cell it is.
- `befores.py`: what it uses beside its question (`BEFORES`). Each can also send a request.
- `asks.py`: how it waits (`ASKS`).
- `peers.py`: whom it talks to, in the process of the test; holds a reply until the test releases it.
- `cells.py`: which cells run, and what each has to come to.
- `drivers.py`: who runs it (`DRIVERS`), and answers it as people would.

`test_matrix.py` runs cells one by one, `test_kills.py` kills servers and workers under turns that wait, and
`test_slow_io.py` replays raw requests that take longer than a replay's patience.

Each pair of values of the three axes is in the cells that run by default; `make matrix` (`HITL_TEST_MATRIX=1`) runs all
of them.
"""
