"""The control plane: where Pods live, and the seams by which people and programs reach them."""
