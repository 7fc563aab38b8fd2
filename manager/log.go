package manager

import (
	"github.com/kapok-dev/kapok/manager/log"

	"github.com/go-logr/logr"
)

// Log is the program's logger, for code outside of a Reconciler: see package log.
var Log = log.Log

// SetLogger makes l slog's default logger, to which Log writes: see package log.
func SetLogger(l logr.Logger) { log.SetLogger(l) }
