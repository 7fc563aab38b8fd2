package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// shell runs kapok in a home directory of its own.
type shell struct {
	*testing.T
	home string
	env  []string
}

func newShell(t *testing.T, kubeconfig string) *shell {
	s := &shell{T: t, home: t.TempDir()}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "LC_") && !strings.HasPrefix(name, "KUBE") && name != "LANG" {
			s.env = append(s.env, v)
		}
	}
	s.env = append(s.env, "HOME="+s.home, "USERPROFILE="+s.home)
	if kubeconfig != "" {
		s.env = append(s.env, "KUBECONFIG="+kubeconfig)
	}
	return s
}

// kapok runs a command line, whose words are separated by single blanks.
func (s *shell) kapok(stdin, args string) (code int, stdout, stderr string) {
	s.Helper()
	path, err := binary()
	if err != nil {
		s.Fatal(err)
	}
	c := exec.CommandContext(s.Context(), path, strings.Split(args, " ")...)
	var out, errs bytes.Buffer
	c.Env, c.Dir, c.Stdin, c.Stdout, c.Stderr = s.env, s.home, strings.NewReader(stdin), &out, &errs
	if err := c.Run(); err != nil {
		if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
			s.Fatal(err)
		}
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}
