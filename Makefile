# Every target makes its own environment first: plain python3 (3.11 or newer), venv and pip.
# ARGS="..." is handed on, e.g. `make demo ARGS="--live"`.

VENV := $(or $(POLYPOD_VENV),.venv)
.DEFAULT_GOAL := help
.PHONY: help demo test test-long check fix bench clean distclean

# Some machines set it; without compiled modules every process of Ray starts a second later.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 18

demo: ## a tree of Pods does a small job here, without key or network
	@scripts/bootstrap runtime
	@$(VENV)/bin/polypod demo $(ARGS)

test: ## every check and test, in sizes for a laptop
	@scripts/bootstrap dev
	@scripts/test -- $(ARGS)

test-long: ## the same at full size
	@scripts/bootstrap dev
	@scripts/test --long -- $(ARGS)

check: ## what a change must pass, in about two minutes
	@scripts/bootstrap dev
	@scripts/check $(ARGS)

fix: ## put format and lint right, then check
	@scripts/bootstrap dev
	@scripts/check --fix

bench: ## the benchmarks; prints ratios
	@scripts/bootstrap dev
	@scripts/bootstrap bench
	@$(VENV)/bin/python -m benchmarks $(ARGS)

clean: ## remove caches and build products
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -path ./.venv -prune -o -path ./.git -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean ## and the environment
	rm -rf .venv .tools
