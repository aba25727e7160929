"""What polypod tells Prometheus, and the short view of it for `polypod top`."""
