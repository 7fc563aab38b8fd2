package instance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ProjectFile makes the folder that has it a project.
const ProjectFile = "kapok.yaml"

// A Project is a folder with an instance of its own.
type Project struct {
	Dir  string // without symbolic links
	File string
}

// FindProject returns the project of a folder: the folder itself, or the next above it that has a
// kapok.yaml. It returns nil if there is none. A file of another user is an error, as it would
// decide what a server of this user does.
func FindProject(dir string) (*Project, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	for {
		file := filepath.Join(dir, ProjectFile)
		info, err := os.Stat(file)
		switch {
		case err == nil && info.Mode().IsRegular():
			if !isTrusted(info) {
				return nil, fmt.Errorf("%s belongs to another user: copy the project, or work in a folder outside of %s", file, dir)
			}
			return &Project{dir, file}, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return nil, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, nil
		}
		dir = parent
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Name is the name of the project's instance: that of the folder, and a hash of its path.
func (p *Project) Name() string {
	base := notInNames.ReplaceAllString(strings.ToLower(filepath.Base(p.Dir)), "-")
	base = strings.Trim(base[:min(len(base), 40)], "-")
	sum := sha256.Sum256([]byte(p.Dir))
	return strings.TrimPrefix(base+"-"+hex.EncodeToString(sum[:4]), "-")
}
