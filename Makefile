# Overlake. `make` prints the targets. Everything needs only Go, gcc with g++ and make, unless a target says more.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
BIN         := bin/overlake
WAREHOUSE   ?= .cache/quickstart
PACKAGES    ?= ./...
FUZZTIME    ?= 5s
BENCH       ?=

# The rooms whose values are used by several goroutines at once; deep races everything.
CONCURRENT := ./internal/objstore/... ./internal/budget ./internal/row ./internal/engine ./internal/lake ./internal/overlay ./internal/search .

# Tests of search that build many graphs or read whole collections of texts, which the race detector slows beyond a gate's time;
# deep races them too.
SLOWRACE := BytesOfVectorIndexes|VectorBundles|VectorArtifact|VectorIndexesOf|FileOfVectors|MappedBundle|VectorsAre|BuildsOfVectors|SearchesHoldNothing|SciFact|XQuAD|BytesOfTextIndexes|TextBundles|HostileTexts|TextHistories

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the program into bin/overlake
	@mkdir -p bin
	$(GO) build -o $(BIN) ./cmd/overlake

.PHONY: quickstart
quickstart: build ## build, make a table of 778 pages with embeddings and ask it four questions
	@rm -rf $(WAREHOUSE) && mkdir -p $(WAREHOUSE)
	$(BIN) -w $(WAREHOUSE) ingest docs examples/fiori-docs/docs.parquet --vector 'vector=384'
	$(BIN) -w $(WAREHOUSE) sql --echo -f examples/quickstart.sql
	@printf '\nThe table is in %s: plain Iceberg, other engines read it too. Next:\n\n' $(WAREHOUSE)
	@printf '  %-58s # %s\n' \
	  '$(BIN) -w $(WAREHOUSE) repl' 'ask your own questions; \d lists the tables' \
	  '$(BIN) -w $(WAREHOUSE) inspect docs' 'snapshots, files and schema' \
	  '$(BIN) -w mine ingest mytable yourfile.parquet' 'a table of your own, also from csv, ndjson, arrow' \
	  'less docs/guide/README.md' 'what else there is'

.PHONY: test
test: ## run the whole suite; tests that need the shared data or Python say so when they are skipped
	$(GO) test $(PACKAGES)

.PHONY: check
check: format vet staticcheck policy generate licences race fuzz ## what a change must pass, apart from test

.PHONY: format
format: ## fail on Go files that gofmt would change
	@bad=$$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l); \
	  if [ -n "$$bad" ]; then printf 'not formatted (run gofmt -w):\n%s\n' "$$bad"; exit 1; fi

.PHONY: vet
vet: ## go vet
	$(GO) vet $(PACKAGES)

.PHONY: staticcheck
staticcheck: ## staticcheck, at a pinned version
	$(GO) run $(STATICCHECK) $(PACKAGES)

.PHONY: policy
policy: ## the house against docs/architecture.md, links of the pages, forms of the fragments
	$(GO) test -count=1 ./internal/policy

.PHONY: generate
generate: ## regenerate what is generated and fail when that changes anything
	@before=$$( { git status --porcelain; git diff; } | sha256sum); \
	  $(GO) generate $(PACKAGES); \
	  after=$$( { git status --porcelain; git diff; } | sha256sum); \
	  if [ "$$before" != "$$after" ]; then git status --short; echo 'generated files were stale'; exit 1; fi

.PHONY: licences
licences: ## the licence of every module that the program links
	$(GO) test -count=1 -run '^TestLicences$$' -v ./internal/policy

.PHONY: race
race: ## the race detector on the rooms with concurrency
	$(GO) test -race -skip '$(SLOWRACE)' $(CONCURRENT)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (5s)
	@GO='$(GO)' bash .ci/fuzz $(FUZZTIME)

.PHONY: deep
deep: ## hours rather than minutes: long fuzzing, the race detector everywhere, long histories
	OVERLAKE_DEEP=1 $(GO) test -timeout 3h $(PACKAGES)
	OVERLAKE_DEEP=1 $(GO) test -race -timeout 3h $(PACKAGES)
	@GO='$(GO)' bash .ci/fuzz 2m

.PHONY: bench-sql
bench-sql: ## measure SQL against bare DuckDB and arrow-go; writes bench/results/sql.json
	@mkdir -p bench/results
	$(GO) run ./bench -out bench/results/sql.json

.PHONY: bench-vector
bench-vector: ## measure vector indexes against hnswlib, FAISS, usearch and LanceDB; hours, BENCH=-quick takes minutes
	@bash bench/vectors/peers/install .cache/vectors
	$(GO) run ./bench/vectors -out bench/results/vector.json $(BENCH)

.PHONY: bench-text
bench-text: ## measure the text index against bleve and Tantivy (needs cargo and Debian's apt); writes bench/results/text.json
	@bash bench/text/install .cache/text
	$(GO) run ./bench/text -out bench/results/text.json $(BENCH)

.PHONY: docs
docs: ## check the pages: links, the list of rooms, fragments, decisions
	$(GO) test -count=1 -run 'TestHouse|TestLinks|TestChanges|TestDecisions' ./internal/policy

.PHONY: clean
clean: ## remove what the targets above built
	rm -rf bin .cache
