package scaffold

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// RenderOnly is the environment variable that makes the program leave out what follows the
// scaffolds.
const RenderOnly = "KAPOK_TOOLKIT_RENDER_ONLY"

// render runs command lines of a program in an empty directory, and returns the files that they
// make, by their paths.
func render(ctx context.Context, program, dir string, commands [][]string) (map[string][]byte, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, command := range commands {
		c := exec.CommandContext(ctx, program, command...)
		c.Dir = dir
		c.Env = append(os.Environ(), RenderOnly+"=1")
		if said, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("scaffold the project for comparison: %s %s: %w\n%s", filepath.Base(program), strings.Join(command, " "), err, bytes.TrimSpace(said))
		}
	}
	files := map[string][]byte{}
	return files, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	})
}
