# Installs Headgate:        make && sudo make install
# Takes it away again:      sudo make uninstall
# Makes a Debian package:   make deb
# Tries that package in a virtual machine with a default Debian 12, as root:   make machine-test
#
# Variables: PREFIX, DESTDIR, and LIBDIR and UNITDIR where a distribution has its own; BUILD is a folder with
# programs that are built already.

PREFIX ?= /usr/local
DESTDIR ?=
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
DOCDIR ?= $(PREFIX)/share/doc/headgate
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
CARGO ?= cargo
BUILD ?= $(CURDIR)/target/release

# The command finds the others beside itself (host/src/programs.rs).
PROGRAMS := headgate headgate-manager headgate-nfs headgate-bench
PACKAGES := $(PROGRAMS) headgate-abi
EXAMPLES := abi/examples/bridge.c abi/examples/guestbook.c abi/examples/responder.c $(wildcard docs/guide/examples/*.toml)

all:
	$(CARGO) build --locked --release $(PACKAGES:%=-p %)

# `headgate` writes what follows from the command lines, so that pages and completions are those of this build.
install:
	@for program in $(PROGRAMS); do test -x "$(BUILD)/$$program" || \
		{ echo "make install: $(BUILD)/$$program is missing; run \`make\` first, as a user who has cargo" >&2; exit 1; }; done
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man8 $(DESTDIR)$(UNITDIR) \
		$(DESTDIR)$(BASHDIR) $(DESTDIR)$(ZSHDIR) $(DESTDIR)$(FISHDIR) $(DESTDIR)$(DOCDIR)/examples \
		$(DESTDIR)$(DOCDIR)/monitoring
	install -s -m 755 $(PROGRAMS:%=$(BUILD)/%) $(DESTDIR)$(BINDIR)
	$(MAKE) -C abi install PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) DESTDIR=$(DESTDIR) LIBRARIES=$(BUILD)
	pages=$$(mktemp -d) && $(BUILD)/headgate man $$pages && \
		install -m 644 $$pages/*.1 $(DESTDIR)$(MANDIR)/man1 && \
		install -m 644 $$pages/*.8 $(DESTDIR)$(MANDIR)/man8; done=$$?; rm -r $$pages; exit $$done
	$(BUILD)/headgate completions bash > $(DESTDIR)$(BASHDIR)/headgate
	$(BUILD)/headgate completions zsh > $(DESTDIR)$(ZSHDIR)/_headgate
	$(BUILD)/headgate completions fish > $(DESTDIR)$(FISHDIR)/headgate.fish
	sed 's|/usr/bin/|$(BINDIR)/|g' dist/headgate.service > $(DESTDIR)$(UNITDIR)/headgate.service
	install -m 644 README.md CHANGELOG.md LICENSE $(DESTDIR)$(DOCDIR)
	install -m 644 $(EXAMPLES) $(DESTDIR)$(DOCDIR)/examples
	install -m 644 dist/prometheus/headgate.rules.yml dist/grafana/headgate.json $(DESTDIR)$(DOCDIR)/monitoring

# Every file goes. Folders that are not ours alone stay: they may have been there before.
uninstall:
	rm -f $(PROGRAMS:%=$(DESTDIR)$(BINDIR)/%) $(DESTDIR)$(UNITDIR)/headgate.service
	rm -f $(DESTDIR)$(MANDIR)/man1/headgate.1 $(DESTDIR)$(MANDIR)/man1/headgate-*.1 \
		$(DESTDIR)$(MANDIR)/man8/headgate-manager.8
	rm -f $(DESTDIR)$(BASHDIR)/headgate $(DESTDIR)$(ZSHDIR)/_headgate $(DESTDIR)$(FISHDIR)/headgate.fish
	rm -rf $(DESTDIR)$(DOCDIR)
	$(MAKE) -C abi uninstall PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) DESTDIR=$(DESTDIR)

deb: all
	dist/deb.sh $(BUILD)

# The checks, and what else it can do, are in its own first lines.
machine-test: all
	tests/machine/run --build $(BUILD)

# Runs of the simulator in an optimised build are those of the committed tables, to the bit; `cargo test` compares
# those of a debug build.
digests:
	$(CARGO) test --locked --release -p headgate-sim --test scenarios

.PHONY: all install uninstall deb machine-test digests
