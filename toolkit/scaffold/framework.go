package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/internal/front"
)

// portToKapok moves the Go files of the project that are on controller-runtime to Kapok's
// framework, by kapok port.
func portToKapok() error {
	program, err := front.Program()
	if err != nil {
		return fmt.Errorf("--framework kapok: %w", err)
	}
	var said strings.Builder
	c := exec.Command(program, "port")
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("kapok port: %w\n%s", err, said.String())
	}
	return registerFlags(filepath.Join("cmd", "main.go"))
}

// registerFlags makes main register the flag --kubeconfig, which an import of controller-runtime
// does.
func registerFlags(name string) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || bytes.Contains(data, []byte("ctrl.RegisterFlags(")) {
		return err
	}
	return os.WriteFile(name, bytes.Replace(data, []byte("\tflag.Parse()\n"), []byte("\tctrl.RegisterFlags(nil)\n\tflag.Parse()\n"), 1), 0o644)
}
