# Everything a developer runs. `make` alone lists it.

.DEFAULT_GOAL := help
.PHONY: help setup test begun packages rust-built rust-and-environments environments others test-rust test-python test-pythons test-frameworks test-frameworks-oldest test-upstream slowest test-full hostile fuzz matrix lint lint-rust lint-python lint-ui advisories format ui browser pooler pictures site links bench bench-full bench-layers demo wheel sdist try-wheel try-sdist clean

VENV ?= .venv
# Arguments for pytest: `make test-python ARGS="-n0 -k webhook"`.
ARGS ?=
# The first Python on PATH that is new enough.
PYTHON ?= $(shell for name in python3 python python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)

UV := $(shell command -v uv 2>/dev/null)
BIN := $(VENV)/bin
SETUP := setup
# What one of several at once prints stays together, where make can do that (not the one of macOS).
TOGETHER := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
# Two variables of conda and of other virtual environments would send maturin elsewhere.
IN_VENV := env -u CONDA_PREFIX -u PYTHONHOME VIRTUAL_ENV="$(abspath $(VENV))" PATH="$(abspath $(BIN)):$$PATH"
# Half of the time of a test is a wait, for a commit or a timer.
export NEXTEST_TEST_THREADS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))
NEXTEST := $(shell command -v cargo-nextest 2>/dev/null)
# All of them, those in tests/ too, are in the library's (src/lib.rs).
RUST_TESTS := $(if $(NEXTEST),cargo nextest run,cargo test) --lib

help: ## List what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What a debug build has besides: places where tests let the process die (src/faults.rs).
FAULTS := --features failpoints

setup: $(VENV)/.tools ## Make .venv with every tool and the package in it, Rust part built for debugging
	$(IN_VENV) maturin develop --locked $(FAULTS) $(if $(UV),--uv)

$(VENV)/.tools: pyproject.toml
ifdef UV
	uv venv --quiet --allow-existing --python '>=3.11' $(VENV)
	uv pip install --quiet --python $(BIN)/python --group dev
else
	@test -n "$(PYTHON)" || { echo 'no Python 3.11 or newer on PATH; hint: pip install uv fetches one' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group dev
	@# The one that Python 3.11 brings has an advisory, and nothing here needs any.
	$(BIN)/python -m pip uninstall --quiet --yes setuptools
endif
	@touch $@

# In this order, which make keeps where it does one after the other, and `make -j test` does not: `rust-and-environments`
# makes the environments in which `others` tests, and would make them where those are at work. Only `test-python`, which
# runs between the two, keeps them apart.
test: begun rust-and-environments test-python others ## Set up, then run every test, Rust and Python; names the slowest
	@$(BIN)/python tools/slowest.py

begun: # The compiler works while packages come, and at last on one crate, which keeps one core busy.
	@$(MAKE) --no-print-directory --jobs=2 packages rust-built

rust-built:
	$(RUST_TESTS) --locked --no-default-features $(FAULTS) --no-run

packages: $(VENV)/.tools # What tests need that are not about the core, and what needs no core itself
	@# No prerequisites: two of Debian's packages cannot be installed at once.
	@tools/browser.sh $(BIN)/playwright
	@tools/pooler.sh
	$(IN_VENV) python -m tools.frameworks --install
	$(IN_VENV) python -m tools.upstream --install

rust-and-environments: setup # What is copied and unpacked comes while the tests of the core link and wait.
	@$(MAKE) --no-print-directory --jobs=2 $(TOGETHER) SETUP= test-rust environments

environments: $(SETUP) # What the tests on other Pythons run in; which these are is the core's to say
	$(IN_VENV) python tools/other_pythons.py --install

others: setup # Each by itself leaves a processor idle: while it begins, and for its last tests.
	@$(MAKE) --no-print-directory --jobs=2 $(TOGETHER) SETUP= test-pythons test-frameworks test-upstream

test-rust: $(SETUP) ## The tests of the core, with real Python workers
	@# What tries whether a rule that is left out is missed says nothing more there.
	HITL_REFUSE_ONCE=1 HITL_TEST_PYTHON="$(abspath $(BIN))/python" $(RUST_TESTS) --locked --no-default-features $(FAULTS) engine:: \
		-- --skip engine::tests::cluster::mutations
	HITL_TEST_PYTHON="$(abspath $(BIN))/python" $(RUST_TESTS) --locked --no-default-features $(FAULTS)
	@# Where there are any: to find none, rustdoc would read all of the core once more.
	$(if $(shell grep -rlE '^ *//[/!].*```' src),cargo test --locked --no-default-features $(FAULTS) --doc)

test-python: setup browser pooler ## The tests of the package: agents, workers, HTTP, command line, web inbox
	$(IN_VENV) pytest -n auto --dist worksteal --junitxml=target/pytest.xml $(ARGS)

test-pythons: $(SETUP) ## Loops, order and old journals on each other Python that is here, and replays between them
	$(IN_VENV) python tools/other_pythons.py

test-frameworks: $(SETUP) ## Agents of frameworks whose pins exclude those of the other tools, each in an environment of its own
	$(IN_VENV) python -m tools.frameworks $(ARGS)

test-frameworks-oldest: setup ## The common proof of each framework at the oldest version that its extra takes
	$(IN_VENV) python -m tools.frameworks --oldest $(ARGS)

test-upstream: $(SETUP) ## Other frameworks' own tests, inside of turns; fetches their sdists
	$(IN_VENV) python -m tools.upstream $(ARGS)

slowest: $(VENV)/.tools ## Name the slowest tests of the last `make test`
	@$(BIN)/python tools/slowest.py

# Files, folders or tests of them: `make test-full PART=tests/python/cluster/nemeses`. Without it all, and those of the store.
# With PART=src/engine/tests/cluster it is simulated worlds, for 35 minutes (ARGS="--minutes 5"), from where the last run
# stopped on.
PART ?=
WORLDS := src/engine/tests/cluster

test-full: $(if $(filter $(WORLDS),$(PART)),$(VENV)/.tools,setup) ## The tests of faults at full size: hours; those of one PART alone
	$(if $(PART),,HITL_TEST_FULL=1 HITL_TEST_PYTHON="$(abspath $(BIN))/python" cargo test --locked --no-default-features $(FAULTS) --lib store::)
	$(if $(PART),,$(IN_VENV) python -m tools.worlds --first 0 --seeds 5000 --minutes 600)
	$(if $(filter $(WORLDS),$(PART)),$(IN_VENV) python -m tools.worlds $(ARGS),HITL_TEST_FULL=1 HITL_REPLAY_AGENTS=10000 \
		$(IN_VENV) pytest -n0 -s $(if $(PART),$(PART),tests/python/faults tests/python/replay tests/python/cluster/nemeses))

# How many cases each target of `make fuzz` gets; 256 is what the tests run.
CASES ?= 20000

fuzz: setup ## What decodes, parses and judges, on changed inputs, for as long as CASES says; other ones each time
	PROPTEST_CASES=$(CASES) HITL_TEST_PYTHON="$(abspath $(BIN))/python" $(RUST_TESTS) --locked --no-default-features $(FAULTS) fuzz
	HITL_FUZZ_CASES=$(CASES) $(IN_VENV) pytest -n auto -o timeout=0 tests/python/unit/test_decoders_fuzz.py $(ARGS)
	HITL_FUZZ_CASES=$$(( $(CASES) / 200 )) $(IN_VENV) pytest -n0 tests/python/http/test_policy_model.py $(ARGS)

hostile: setup ## 200 clients that mean no good beside 20 who work, for ten minutes
	HITL_TEST_HOSTILE_SECONDS=600 $(IN_VENV) pytest -n0 -s tests/python/faults/test_hostile.py

matrix: setup ## Everything that agents use beside a question, with every way to wait and to run
	HITL_TEST_MATRIX=1 $(IN_VENV) pytest -n auto --dist worksteal tests/python/waiting $(ARGS)

browser: $(VENV)/.tools # A chromium, where there is none
	@tools/browser.sh $(BIN)/playwright

pooler: # A PgBouncer, where there is none
	@tools/pooler.sh

lint: setup ## Format, lints, types, stubs, licences and advisories; changes nothing
	@# Two at once, for compilers and type checkers keep one core busy; what is set up already is not again.
	@$(MAKE) --no-print-directory --jobs=2 $(TOGETHER) SETUP= lint-rust lint-python lint-ui advisories

lint-rust: $(VENV)/.tools
	cargo fmt --check
	@# With what a release has the package and its benchmarks: the tests are the same with and without it. Over the crates
	@# that the tests have, so that these are checked once.
	$(IN_VENV) cargo clippy --locked --lib --benches --features shared-crates -- -D warnings
	$(IN_VENV) cargo clippy --locked --tests --no-default-features $(FAULTS) -- -D warnings
	$(IN_VENV) python tools/check_licences.py

lint-python: $(SETUP)
	$(IN_VENV) ruff check .
	$(IN_VENV) ruff format --check .
	$(IN_VENV) mypy
	$(IN_VENV) python -m tools.frameworks --types
	$(IN_VENV) MYPYPATH=python stubtest --mypy-config-file tools/stubtest.ini hitl._core

lint-ui: $(VENV)/.tools
	$(BIN)/python tools/check_ui.py

advisories: $(VENV)/.tools ## Known vulnerabilities and withdrawn releases, as far as the registries answer
	$(IN_VENV) python tools/check_advisories.py $(ARGS)

ui: ## Build the web inbox into src/server/assets/ui, to be committed; needs node 20.19 or newer
	cd ui && npm ci --no-audit --no-fund && npm run build

pictures: setup browser ## Take the pictures of the web inbox for the documents
	$(IN_VENV) python -m tests.python.ui.pictures

site: setup ## Build the documents as a site into target/site, and look for what is wrong with it
	$(IN_VENV) python -m tools.site

links: setup ## The same, and ask whether what it links to elsewhere answers
	$(IN_VENV) python -m tools.site --links

format: $(VENV)/.tools ## Format everything
	cargo fmt
	$(IN_VENV) ruff check --fix .
	$(IN_VENV) ruff format .

bench: $(VENV)/.tools ## Build for speed and compare with others, in about ten minutes; needs npm besides
	$(IN_VENV) maturin develop --locked --release $(if $(UV),--uv)
	$(IN_VENV) python -m benchmarks $(ARGS)

bench-full: $(VENV)/.tools ## The same at full size, an hour on a quiet machine; writes docs/performance.md
	$(IN_VENV) maturin develop --locked --release $(if $(UV),--uv)
	$(IN_VENV) python -m benchmarks --full --docs $(ARGS)

bench-layers: ## Measure the layers of the core by themselves, each beside its limit
	cargo bench --locked --no-default-features $(ARGS)

demo: setup ## Serve the example agent on port 8000; chat with it: .venv/bin/hitl chat
	$(IN_VENV) hitl demo

# What `make wheel` builds for: `make wheel PLATFORM=musllinux_1_2 TARGET=aarch64-unknown-linux-musl`. zig links against an
# old system's libraries, wherever it runs; without a PLATFORM it is this machine's linker and system, as on macOS.
PLATFORM ?= manylinux_2_28
TARGET ?=
WHEEL_TOOLS := target/wheel-tools
ON_WHEEL_TOOLS := env -u CONDA_PREFIX -u PYTHONHOME VIRTUAL_ENV="$(abspath $(WHEEL_TOOLS))" PATH="$(abspath $(WHEEL_TOOLS)/bin):$$PATH"

wheel: $(WHEEL_TOOLS)/.made ## Build wheel and sdist into dist/, look at them, and use the wheel in bare environments
	rm -rf dist
	$(ON_WHEEL_TOOLS) maturin build --locked --release --sdist --out dist \
		$(if $(PLATFORM),--zig --compatibility $(PLATFORM)) $(if $(TARGET),--target $(TARGET))
	$(ON_WHEEL_TOOLS) python tools/check_wheel.py dist/*
	@# One for another system is not for this one.
	$(if $(TARGET),,@$(MAKE) --no-print-directory try-wheel)

sdist: $(WHEEL_TOOLS)/.made ## Build the sdist alone into dist/, and look at it
	rm -rf dist
	$(ON_WHEEL_TOOLS) maturin sdist --out dist
	$(ON_WHEEL_TOOLS) python tools/check_wheel.py dist/*

try-wheel: $(WHEEL_TOOLS)/.made ## Install the wheel in dist/ on each Python that is here, without a compiler, and use it
	$(ON_WHEEL_TOOLS) python -m tools.try_wheel dist/*.whl

try-sdist: $(WHEEL_TOOLS)/.made ## Install the sdist in dist/, which cargo builds for some minutes, and use it
	$(ON_WHEEL_TOOLS) python -m tools.try_wheel dist/*.tar.gz

$(WHEEL_TOOLS)/.made: pyproject.toml
ifdef UV
	uv venv --quiet --clear --seed --python '>=3.11' $(WHEEL_TOOLS)
	uv pip install --quiet --python $(WHEEL_TOOLS)/bin/python --group wheel
else
	@test -n "$(PYTHON)" || { echo 'no Python 3.11 or newer on PATH; hint: pip install uv fetches one' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/python -m pip install --quiet --upgrade pip
	$(WHEEL_TOOLS)/bin/python -m pip install --quiet --group wheel
endif
	@touch $@

clean: ## Remove what was built
	rm -rf $(VENV) dist target ui/node_modules python/hitl/_core*.so
