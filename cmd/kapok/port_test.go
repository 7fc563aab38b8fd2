package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPort(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "main.go")
	const before = "package main\n\nimport \"sigs.k8s.io/controller-runtime/pkg/manager\"\n\nvar _ manager.Manager\n"
	if err := os.WriteFile(name, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	port := func(args ...string) (stdout, stderr string, code int) {
		var out, errs bytes.Buffer
		code = run(append([]string{"port"}, args...), &out, &errs)
		return out.String(), errs.String(), code
	}
	file := func() string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}

	out, stderr, code := port("-n", dir)
	if code != 0 || stderr != "" || file() != before {
		t.Error(code, stderr, file())
	}
	for _, part := range []string{"--- a/main.go\n", "+++ b/main.go\n", "-import \"sigs.k8s.io/controller-runtime/pkg/manager\"\n", "+import \"github.com/kapok-dev/kapok/manager\"\n"} {
		if !strings.Contains(out, part) {
			t.Errorf("the diff has no %q: %s", part, out)
		}
	}
	after := strings.Replace(before, "sigs.k8s.io/controller-runtime/pkg/manager", "github.com/kapok-dev/kapok/manager", 1)
	if out, stderr, code := port(dir); code != 0 || stderr != "" || out != "main.go\n" || file() != after {
		t.Error(code, out, stderr, file())
	}
	if out, stderr, code := port(dir); code != 0 || stderr != "" || out != "" || file() != after {
		t.Error("again:", code, out, stderr, file())
	}

	if err := os.WriteFile(name, []byte(before+"\nvar _ = manager.Nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := port(dir); code != exitFailure || !strings.HasPrefix(stderr, "main.go:7: manager.Nonsense: ") ||
		!strings.Contains(stderr, "1 place must be changed by hand") || !strings.Contains(file(), "kapok/manager") {
		t.Error(code, stderr, file())
	}
	if err := os.WriteFile(name, []byte("sigs.k8s.io/controller-runtime"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := port(dir); code != exitFailure || !strings.Contains(stderr, "main.go:1") {
		t.Error(code, stderr)
	}
	if _, stderr, code := port(name); code != exitFailure || !strings.Contains(stderr, "not a directory") {
		t.Error(code, stderr)
	}
	if _, _, code := port(dir, dir); code != exitUsage {
		t.Error(code)
	}
}
