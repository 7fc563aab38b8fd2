#!/bin/sh
# Lets systemd read the unit, and restarts the service if it runs. The service is not enabled: systemctl enable --now kapok.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart kapok.service
fi
