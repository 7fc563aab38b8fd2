package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestReproducible checks that the definitions are up to date.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles much")
	}
	file := filepath.Join(t.TempDir(), "definitions.txt")
	if err := run(file); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("..", "definitions.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("definitions.txt is not what the Go types give: run go generate ./internal/kinds/openapi")
	}
}
