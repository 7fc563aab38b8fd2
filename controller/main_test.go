package controller_test

import (
	"log/slog"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is the logger of examples.
var quiet = logr.FromSlogHandler(slog.DiscardHandler)
