# Two targets set everything up: `make demo` and `make test`. Bare `make` lists the others.

.DEFAULT_GOAL := help
.PHONY: help demo test build install peers soak bench build-node build-arm clean

BIN := build/bin
GOBUILD := go build -trimpath

help: ## list what one can do here
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## install what is missing, build, and run the whole loop: record, dataset, train, deploy, score
	$(BIN)/pinch demo

test: install ## install what is missing, also test peers from PyPI, and run every test
	@tools/install-debian.sh tools/debian-packages-test.txt
	@tools/peers.sh
	@tools/test.sh

build: install ## install what is missing and build the four programs into build/bin
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GOBUILD) -o $(BIN)/pinch ./cmd/pinch
	$(GOBUILD) -tags opencv -o $(BIN)/pinch-rig ./cmd/pinch-rig
	$(GOBUILD) -tags mujoco -o $(BIN)/pinch-sim ./cmd/pinch-sim
	$(GOBUILD) -tags blas,libav,xla -o $(BIN)/pinch-node ./cmd/pinch-node

install: ## install the Debian packages and Go modules that are missing
	@tools/check-go.sh
	@tools/install-debian.sh tools/debian-packages.txt
	@go mod download || { echo "make: Go modules could not be downloaded (error above); check the network or GOPROXY, then run make again." >&2; exit 1; }

peers: ## fill .venv with the Python peers that tests compare against
	@tools/install-debian.sh tools/debian-packages-test.txt
	@tools/peers.sh

soak: install peers ## long runs: hundreds of kills, hours of fuzzing (FUZZTIME=10m for each target)
	@tools/soak.sh

bench: build ## measure capture, ingest, loader, training, serving and control on this machine
	$(BIN)/pinch bench

build-node: install ## the training and serving program alone
	@mkdir -p $(BIN)
	$(GOBUILD) -tags blas,libav,xla -o $(BIN)/pinch-node ./cmd/pinch-node

build-arm: ## the programs for a robot computer: static, without cgo
	@tools/check-go.sh
	@mkdir -p build/arm
	CGO_ENABLED=0 $(GOBUILD) -o build/arm/pinch ./cmd/pinch
	CGO_ENABLED=0 $(GOBUILD) -o build/arm/pinch-rig ./cmd/pinch-rig

clean: ## remove what was built (recordings, datasets and .venv stay)
	rm -rf build
