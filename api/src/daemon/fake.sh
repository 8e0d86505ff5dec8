#!/bin/sh
# A daemon for tests: it does what the text of its configuration says, which is shell.
say() { printf '%s\n' "$1" >&0; }
hear() { read -r heard; }
say_ready() { say '{"ready":{"name":"fake","warnings":"beware"}}'; }
hear
eval "$(printf '%s' "$heard" | sed -e 's/.*"text":"\(.*\)"}$/\1/' -e 's/\\"/"/g')"
