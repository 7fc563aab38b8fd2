// Command release makes the files of a release of Kapok: archives, packages, a container image,
// assets for envtest, a chart, installers, and what describes them: software bills of materials,
// provenance and checksums.
//
//	go run -C release . --version v0.1.0
//
// It needs Go and git, the network for Go modules alone, and neither root nor a daemon. It
// publishes nothing. Two runs for one commit with one version of Go write equal bytes:
// docs/releasing.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Exit codes.
const (
	exitFailure = 1 // the release could not be made
	exitUsage   = 2 // the command line is invalid
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"), os.Stderr))
}

// run executes a command line, and returns the exit code. epoch is the value of SOURCE_DATE_EPOCH.
func run(ctx context.Context, args []string, epoch string, log io.Writer) int {
	o, err := parse(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(log, "release: %v\n", err)
		return exitUsage
	}
	s, err := findSource(ctx, o.source, o.snapshot)
	if err == nil {
		err = s.fix(epoch)
	}
	if err == nil {
		err = makeRelease(ctx, o, s, log)
	}
	if err != nil {
		fmt.Fprintf(log, "release: %v\n", err)
		return exitFailure
	}
	return 0
}
