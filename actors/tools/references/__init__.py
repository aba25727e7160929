"""What `@path`, `#slug` and `/slug` lead to: files inside the scope, knowledge, workflows."""
