package operators

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A module is one operator, extracted in the module cache.
type module struct {
	Path, Version, Dir, Error string
}

// download runs Go to fetch the modules in testdata/modules/go.mod that are not cached, and returns
// their directories.
func download() ([]module, error) {
	wanted, err := goCommand("mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var file struct{ Require []module }
	if err := json.Unmarshal(wanted, &file); err != nil {
		return nil, fmt.Errorf("read testdata/modules/go.mod: %w", err)
	}
	args := []string{"mod", "download", "-json"}
	for _, m := range file.Require {
		args = append(args, m.Path)
	}
	printed, err := goCommand(args...)
	var modules []module
	for d := json.NewDecoder(bytes.NewReader(printed)); ; {
		var m module
		if end := d.Decode(&m); errors.Is(end, io.EOF) {
			break
		} else if end != nil {
			return nil, fmt.Errorf("read what go mod download printed: %w", errors.Join(end, err))
		}
		if m.Error != "" {
			return nil, fmt.Errorf("download %s: %s", m.Path, m.Error)
		}
		modules = append(modules, m)
	}
	if err == nil && len(modules) != len(file.Require) {
		err = fmt.Errorf("%d modules are required, %d downloaded", len(file.Require), len(modules))
	}
	return modules, err
}

func goCommand(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = "testdata/modules"
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("go %v: %w\n%s", args, err, &stderr)
	}
	return out, err
}
