// Command site turns the documents of Kapok into a static site: README.md, CHANGELOG.md, what is
// below docs, and the documents that these list.
//
//	go run -C docs/site . --serve localhost:8000
//	go run -C docs/site . --version v0.1.0 --out DIR
//
// The second form writes DIR/v0.1.0, which any web server can serve at any path, and browsers can
// open from a disk. It adds the version to DIR/versions.json, from which the pages of all versions
// in DIR offer each other. Two runs for one commit write equal bytes. docs/releasing.md describes
// the versions, and docs/decisions/0054-the-site-by-a-go-program.md the reasons.
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
	exitFailure = 1 // the site could not be built
	exitUsage   = 2 // the command line is invalid
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line until it has finished or the context ends, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "site: %v\n", err)
		return exitUsage
	}
	if o.commit, err = commitOf(ctx, o.root); err == nil {
		if o.serve != "" {
			err = serve(ctx, o, stdout)
		} else {
			err = write(o, stdout)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "site: %v\n", err)
		return exitFailure
	}
	return 0
}

// write builds the site into the directory of its version.
func write(o options, stdout io.Writer) error {
	s, err := build(os.DirFS(o.root), o)
	if err != nil {
		return err
	}
	if err := store(s, o.out, o.version); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d files in %s\n", len(s), o.dir())
	return nil
}
