#!/bin/sh
# Creates the user of the service. An upgrade finds it.
set -e
if ! getent passwd kapok >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/kapok --no-create-home --shell /usr/sbin/nologin kapok
fi
