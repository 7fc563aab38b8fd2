#!/bin/sh
# Stops the service before the package is removed, and not before an upgrade. The argument is "remove" in dpkg, and the number
# of versions that stay in rpm.
set -e
case "${1:-}" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now kapok.service
	fi
	;;
esac
