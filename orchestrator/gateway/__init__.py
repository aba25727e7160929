"""The HTTP seam: one ASGI app over the control plane and the store.

`app.build_app` makes it, `server.serve` runs it. Entries come from the store only, live text from the Pods only.
"""
