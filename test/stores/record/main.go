// Command record makes the archives of package stores for one version of Kapok:
//
//	go run ./test/stores/record --kapok PROGRAM --version v0.1.0
//
// It runs the program three times: a server that stops, one that is killed, and one with
// encryption at rest. Each gets the requests of writes.txt. Then record lists all objects in all
// versions, saves a snapshot, ends the server, and packs the three together.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var (
		program = flag.String("kapok", "", "program of that version; required")
		version = flag.String("version", "", "name of the version, which is a directory of testdata; required")
		source  = flag.String("source", "test/stores", "directory of package stores")
	)
	flag.Parse()
	if *program == "" || *version == "" || flag.NArg() > 0 {
		return errors.New("--kapok and --version are required, and there are no arguments")
	}
	if filepath.Base(*version) != *version {
		return fmt.Errorf("--version %q must be the name of a directory", *version)
	}
	path, err := exec.LookPath(*program)
	if err != nil {
		return fmt.Errorf("--kapok: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(*source, "writes.txt"))
	if err != nil {
		return fmt.Errorf("--source: %w", err)
	}
	writes, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("writes.txt: %w", err)
	}
	target := filepath.Join(*source, "testdata", *version)
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists already: a released version does not change", target)
	}
	scratch, err := os.MkdirTemp("", "record-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	packed := filepath.Join(scratch, "packed")
	if err := os.Mkdir(packed, 0o755); err != nil {
		return err
	}
	for _, of := range []store{{name: "stopped"}, {name: "killed", kill: true}, {name: "encrypted", encrypt: true}} {
		dir := filepath.Join(scratch, of.name)
		if err := of.record(ctx, path, dir, writes); err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		size, err := pack(filepath.Join(packed, of.name+".tar.gz"), dir)
		if err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		fmt.Printf("%s: %d bytes\n", of.name, size)
	}
	return os.CopyFS(target, os.DirFS(packed))
}
