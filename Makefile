# No verb needs another before it: where one needs set-up, that comes first by itself, and does nothing when nothing changed.

PYTHON ?= python3
SIZE ?= book
FOR ?=
ONLY ?=
ENGINE ?=
ADDRESS ?=
DEVICE ?=

PY := .venv/bin/python
LABKIT := $(PY) -m labkit
# Whole files go to two processes in the order of their names: folders first, whose tests take longest.
PYTEST := $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder
SERVICES := tests/course tests/homework tests/test_kill.py tests/test_ray.py
# The Python for a GPU: the one that is named, else the one that was set up, else the system's.
GPU_PY := $(if $(filter file,$(origin PYTHON)),$(firstword $(wildcard $(PY)) $(PYTHON)),$(PYTHON))
GPU_PATH := $(CURDIR):$(CURDIR)/kernels:$(CURDIR)/chapters:$(CURDIR)/packages$(if $(PYTHONPATH),:$(PYTHONPATH))
ON_SERVER := $(if $(filter file,$(origin PYTHON)),,$(DEVICE))

# Chapters that were not executed have their twins on the pages of size book; another size has none.
NO_SITE = echo "no site: size $(SIZE) needs all chapters for it (make book SIZE=$(SIZE)); open what ran in build/book/$(SIZE)"
BUILD_SITE = $(if $(and $(ONLY),$(filter-out book,$(SIZE))),$(NO_SITE),$(LABKIT) book site --size $(SIZE))

# The book trains in processes of one thread each; threads that wait must not spin.
export OMP_NUM_THREADS := 1
export OMP_WAIT_POLICY := PASSIVE
# Hundreds of processes import labkit: what Python compiled once is kept.
unexport PYTHONDONTWRITEBYTECODE
# Tools look for nothing on the network: neither pip nor pyright asks for its newest version.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help setup lab book runs record site pdf test test-all test-services test-site check bench-kernels gpu-test gpu-pack clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "Variables: SIZE=book|gpu (now $(SIZE)), ONLY=\"chapter ...\" for book and runs, FOR=2h for runs,"
	@echo "           PYTHON=python3.12 for setup, DEVICE=cuda (or a GPU's name) for runs"
	@echo "           ENGINE=processes|serial|ray, ADDRESS=host:port for runs: what trains its runs, and where"

setup: ## Make .venv with the pinned versions (every verb does this first)
	@$(PYTHON) -I chapters/press/book/setup.py $(if $(filter file,$(origin PYTHON)),,--chosen)

lab: setup ## Open the chapters as notebooks in JupyterLab
	@$(PY) -I chapters/press/book/lab.py

book: setup ## Execute what changed on the recorded runs, check the claims, build the site
	@$(LABKIT) book build --size $(SIZE) $(if $(ONLY),--only $(ONLY)); built=$$?; \
	if [ $$built -le 1 ]; then $(BUILD_SITE) || built=1; fi; \
	exit $$built

# With DEVICE and PYTHON nothing is set up: a GPU server has torch, and no network (make gpu-pack).
runs: $(if $(ON_SERVER),,setup) ## Train what is missing or stale, at low priority; call again to continue
	@$(if $(ON_SERVER),PYTHONPATH="$(GPU_PATH)" $(PYTHON),$(PY)) -m press book runs --size $(SIZE) \
	$(if $(ONLY),--only $(ONLY)) $(if $(FOR),--for $(FOR)) $(if $(DEVICE),--device "$(DEVICE)") \
	$(if $(ENGINE),--engine $(ENGINE)) $(if $(ADDRESS),--address $(ADDRESS))

record: setup ## Move what was trained here into data/records
	@$(LABKIT) book record --size $(SIZE) $(if $(ONLY),--only $(ONLY))

site: setup ## Build the site from the chapters as they were executed last
	@$(LABKIT) book site --size $(SIZE)

pdf: setup ## Print the site as one PDF, build/book.pdf (needs Chromium)
	@$(LABKIT) book site --pdf --size $(SIZE)

test: setup ## Run the quick tests
	@$(PYTEST) -m "not slow and not site" $(SERVICES:%=--ignore=%)

test-all: setup ## Run all tests but those of test-services and test-site
	@$(PYTEST) -m "not site" $(SERVICES:%=--ignore=%)

# Three processes on two cores: these tests wait, for servers, clocks and killed workers.
test-services: setup ## Run the tests of homework, course server, cluster and kills
	@$(PYTEST) -n 3 -m "not site" $(SERVICES)

test-site: book ## Build the book, then test its pages and JupyterLab in Chromium
	@$(PYTEST) -m site

# Runs every check even when one is red, so that one call shows everything; edits nothing.
check: setup ## Check format, lint, types, imports, twins and claims; edit nothing
	@red=; try() { name=$$1; shift; echo "check: $$name"; "$$@" || red="$$red $$name,"; }; \
	try "format" $(PY) -m ruff format --check --quiet .; \
	try "lint" $(PY) -m ruff check --quiet .; \
	try "types" $(PY) -m pyright; \
	try "import layers" .venv/bin/lint-imports --no-logo; \
	try "book" $(LABKIT) book check --size $(SIZE); \
	if [ -n "$$red" ]; then echo "check: red:$${red%,}"; exit 1; fi; echo "check: all green"

# Needs no set-up: on a GPU server torch and triton are enough. BENCH= says more: --dry-run, --phases targets.
bench-kernels: ## Measure the fused kernels on this GPU for 8 minutes; call again to continue
	@PYTHONPATH="$(GPU_PATH)" $(GPU_PY) -m normkernels.bench $(BENCH)

# The same laws as in `make test-all`, natively, and those that only a GPU can break.
gpu-test: ## Test the fused kernels on this GPU for 8 minutes; call again to continue
	@PYTHONPATH="$(GPU_PATH)" $(GPU_PY) -m tests.kernels $(GPU_TEST)

gpu-pack: setup ## Make build/gpu.tar.gz: what trains on a GPU, for a machine without a network
	@$(PY) -m press.book.gpu

clean: ## Remove what was built; keep .venv and the stored runs in .labkit
	@rm -rf build
