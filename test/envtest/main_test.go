package envtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// assets is the directory that kapok envtest has created.
var assets string

func TestMain(m *testing.M) {
	if os.Getenv(crashes) != "" {
		crash()
	}
	dir, err := os.MkdirTemp("", "kapok-envtest-")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	assets = filepath.Join(dir, "assets")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func build(dir string) error {
	kapok := filepath.Join(dir, "kapok")
	if runtime.GOOS == "windows" {
		kapok += ".exe"
	}
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", kapok, "./cmd/kapok").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	if out, err := exec.Command(kapok, "envtest", filepath.Join(dir, "assets")).CombinedOutput(); err != nil {
		return fmt.Errorf("kapok envtest: %w: %s", err, out)
	}
	return nil
}
