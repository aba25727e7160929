"""What a Pod's events look like to a person: blocks, and the fold that makes them."""
