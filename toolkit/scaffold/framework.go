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
)

// Self is the environment variable with the path of the program kapok, which has started this one.
const Self = "KAPOK_SELF"

// portToKapok moves the Go files of the project that are on controller-runtime to Kapok's framework, by
// kapok port.
func portToKapok() error {
	program := os.Getenv(Self)
	if program == "" {
		var err error
		if program, err = exec.LookPath("kapok"); err != nil {
			return errors.New("--framework kapok needs the program kapok in PATH")
		}
	}
	var said strings.Builder
	c := exec.Command(program, "port")
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("kapok port: %w\n%s", err, said.String())
	}
	return registerFlags(filepath.Join("cmd", "main.go"))
}

// registerFlags makes main register the flag --kubeconfig, which an import of controller-runtime does.
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
