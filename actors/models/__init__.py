"""Models behind one port (`actors.protocol.model.Model`): real endpoints, and models for tests.

`registry.build_model` is the way in. The wires (`wire/`) are pure; `endpoint` carries one request out over a transport,
with retries and shared limits; `scripted`, `replay` and `chaos` need no network.
"""
