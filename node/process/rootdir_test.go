//go:build linux || darwin

package process

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/node/internal/proc"

	corev1 "k8s.io/api/core/v1"
)

// binaryOf returns a file in the format ELF, which names an interpreter if it is linked
// dynamically.
func binaryOf(t *testing.T, dynamic bool) string {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56, Shentsize: 64, Phoff: 64, Phnum: 1,
	}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	p := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	if dynamic {
		p.Type = uint32(elf.PT_INTERP)
	}
	if err := errors.Join(binary.Write(&b, binary.LittleEndian, h), binary.Write(&b, binary.LittleEndian, p)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestImageCommand(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"app/server": binaryOf(t, false), "usr/bin/tool": binaryOf(t, false), "usr/bin/dynamic": binaryOf(t, true), "usr/bin/script": "#!/bin/sh\n", "usr/bin/data": "",
	} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Chmod(filepath.Join(root, "usr/bin/data"), 0o644), os.Symlink("/app/server", filepath.Join(root, "run")), os.Symlink("usr/bin", filepath.Join(root, "bin")),
		os.Symlink("/etc", filepath.Join(root, "etc")), os.Symlink("/bin/sh", filepath.Join(root, "usr/bin/outside")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	image := &Image{ID: "sha256:x", Reference: "r@sha256:y", Root: root, Entrypoint: []string{"/run", "-e"}, Cmd: []string{"-c"}, Env: []string{"PATH=/bin", "A=image", "B=$(A)"}, WorkingDir: "/app"}
	for _, test := range []struct {
		name    string
		c       corev1.Container
		env     []string
		args    string
		path    string // below the root
		dir     string
		problem string
	}{
		{"entrypoint and cmd", corev1.Container{}, nil, "/run -e -c", "app/server", "app", ""},
		{"args", corev1.Container{Args: []string{"$(V)", "b"}}, nil, "/run -e <V> b", "app/server", "app", ""},
		{"command", corev1.Container{Command: []string{"tool"}}, nil, "tool", "usr/bin/tool", "app", ""},
		{"command and args", corev1.Container{Command: []string{"/bin/tool", "x"}, Args: []string{"y"}}, nil, "/bin/tool x y", "usr/bin/tool", "app", ""},
		{"relative", corev1.Container{Command: []string{"./tool"}, WorkingDir: "/bin"}, nil, "./tool", "usr/bin/tool", "usr/bin", ""},
		{"a new directory", corev1.Container{WorkingDir: "/new/dir"}, nil, "/run -e -c", "app/server", "new/dir", ""},
		{"a link out of the image", corev1.Container{WorkingDir: "/etc"}, nil, "", "", "", "too many levels"},
		{"PATH of the container", corev1.Container{Command: []string{"tool"}}, []string{"PATH=/app"}, "", "", "", `"tool": executable file not found in the image`},
		{"absent", corev1.Container{Command: []string{"/absent"}}, nil, "", "", "", "not found in the image"},
		{"a link to a file of the machine", corev1.Container{Command: []string{"outside"}}, nil, "", "", "", "not found in the image"},
		{"not executable", corev1.Container{Command: []string{"data"}}, nil, "", "", "", "not found in the image"},
		{"dynamic", corev1.Container{Command: []string{"dynamic"}}, nil, "", "", "", "is linked dynamically"},
		{"script", corev1.Container{Command: []string{"script"}}, nil, "", "", "", "is not a binary"},
	} {
		s := &proc.Spec{Env: test.env}
		err := image.fill(s, &test.c, func(word string) string { return strings.ReplaceAll(word, "$(V)", "<V>") })
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) || !errors.As(err, &missing{}) {
				t.Errorf("%s: got %v, want %s", test.name, err, test.problem)
			}
			continue
		}
		if err != nil || strings.Join(s.Args, " ") != test.args || s.Path != filepath.Join(root, test.path) || s.Dir != filepath.Join(root, test.dir) || s.Image != image.ID || s.Reference != image.Reference {
			t.Errorf("%s: got %+v, %v", test.name, s, err)
		}
		for _, want := range []string{"A=image", "B=$(A)", imageRoot + "=" + root} {
			if !slices.Contains(s.Env, want) {
				t.Errorf("%s: the environment %v has no %s", test.name, s.Env, want)
			}
		}
	}
	if err := (&Image{Root: root}).fill(&proc.Spec{}, &corev1.Container{Image: "i"}, nil); err == nil || err.Error() != `no command specified for image "i"` {
		t.Errorf("no command: got %v", err)
	}
}

func TestDefaultsOfImage(t *testing.T) {
	t.Setenv("PATH", "/machine")
	t.Setenv("HOME", "/home/me")
	got := withDefaults([]string{"PATH=/machine", "HOME=/of/spec", "A=1"}, []string{"PATH=/image", "HOME=/image", "A=2", "B=3", "B=4", "=x"})
	if want := []string{"PATH=/image", "HOME=/of/spec", "A=1", "B=3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNeverPull checks the state of a container whose image is not present, with the pull policy
// Never.
func TestNeverPull(t *testing.T) {
	w := newWorld(corev1.PodSpec{Containers: named("c"), RestartPolicy: corev1.RestartPolicyAlways})
	w.pulls["c"] = ErrNotPresent
	w.step()
	w.step()
	if s := w.pod.Status.ContainerStatuses[0].State.Waiting; s == nil || s.Reason != "ErrImageNeverPull" || s.Message != `Container image "file:///c" is not present with pull policy of Never` {
		t.Errorf("the container waits for %+v", s)
	}
}
