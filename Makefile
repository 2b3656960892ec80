# SPDX-License-Identifier: MIT
# The front door: each target is a line or two over Meson and the scripts in tools/.
BUILD ?= build
BIN = $(BUILD)/src/cmd/betoken
ARGS ?=

all: ## build into build/ (the default)
	@tools/build $(BUILD)

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 24

deps: ## install the missing Debian packages with apt-get
	@tools/install-deps

model: ## fetch the default model and print its path
	@tools/get-model

demo: deps all model ## deps, build, fetch the default model, start the server
	@echo "demo: starting $(BIN) serve $(ARGS) (Ctrl-C stops it)"
	@exec $(BIN) serve $(ARGS)

test: ## build, unit tests, lint, end-to-end tests, the same under ASan and UBSan
	@tools/run-tests

test-all: ## make test, slow end-to-end tests and 30 s of fuzzing a target
	@tools/run-tests --all

lint: all ## floors, sizes, names, formatting
	@meson test -C $(BUILD) --suite lint --print-errorlogs

format: ## rewrite the C sources with clang-format
	@git ls-files -z -- '*.c' '*.h' | xargs -0 clang-format -i && echo "format: done"

bench: all ## measure this machine with the default model (ARGS: options of betoken bench)
	@$(BIN) bench $(ARGS)

bench-peers: all model ## decode beside llama.cpp in interleaved runs, print the ratio
	@tools/bench-peers $(ARGS)

install: all ## install (PREFIX=/usr/local, DESTDIR= for packages)
	@meson configure $(BUILD) --prefix $(or $(PREFIX),/usr/local) && meson install -C $(BUILD)

clean: ## remove every build folder
	@rm -rf build build-asan build-fuzz && echo "clean: removed build, build-asan, build-fuzz"

.PHONY: all help deps model demo test test-all lint format bench bench-peers install clean
