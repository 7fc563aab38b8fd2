package process

import (
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/kapok-dev/kapok/node/internal/proc"
	"github.com/kapok-dev/kapok/node/internal/rootfs"

	corev1 "k8s.io/api/core/v1"
)

// imageRoot is the variable with the root directory of an image, for containers that see the files
// of the machine.
const imageRoot = "KAPOK_IMAGE_ROOT"

// fill sets what a container of an image runs. The container sees the files of the machine: its
// program is found in the directory of the image, and must be one that needs no other file.
func (i *Image) fill(s *proc.Spec, c *corev1.Container, expand func(string) string) error {
	words, err := i.command(c, expand)
	if err != nil {
		return err
	}
	s.Image, s.Reference, s.Args = i.ID, i.Reference, words
	s.Env = append(withDefaults(s.Env, i.Env), imageRoot+"="+i.Root)
	root, err := os.OpenRoot(i.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	within := c.WorkingDir
	if within == "" {
		within = i.WorkingDir
	}
	dir, err := rootfs.Resolve(root, within)
	if err == nil {
		err = root.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return missing{fmt.Sprintf("working directory %q of image %q: %v", within, c.Image, err)}
	}
	s.Dir = filepath.Join(i.Root, dir)
	name, err := lookUp(root, words[0], dir, s.Env)
	if err != nil {
		return missing{err.Error()}
	}
	s.Path = filepath.Join(i.Root, name)
	return standsAlone(root, name)
}

// lookUp returns the path of a program below a root directory, as execvp would find it there.
func lookUp(root *os.Root, name, dir string, env []string) (string, error) {
	candidates := []string{path.Join(dir, name)}
	switch {
	case path.IsAbs(name):
		candidates = []string{name}
	case !strings.Contains(name, "/"):
		candidates = nil
		for _, e := range env {
			if list, ok := strings.CutPrefix(e, "PATH="); ok {
				for _, d := range filepath.SplitList(list) {
					candidates = append(candidates, path.Join("/", d, name))
				}
			}
		}
	}
	for _, c := range candidates {
		resolved, err := rootfs.Resolve(root, c)
		if err != nil {
			continue
		}
		info, err := root.Lstat(resolved)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return resolved, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in the image", name)
}

// standsAlone returns an error for a program that needs other files of its image at their absolute
// paths: one that is linked dynamically, or a script.
func standsAlone(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	program, err := elf.NewFile(f)
	if err != nil {
		return missing{fmt.Sprintf("/%s is not a binary for this system, such as a script, and the container has no root directory of its own: only static binaries of images run (%v)", name, err)}
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return missing{fmt.Sprintf("/%s is linked dynamically, and the container has no root directory of its own: only static binaries of images run", name)}
		}
	}
	return nil
}
