package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/doctor"
)

// Damage in the files of a stopped store is found, and sets the exit code.
func TestDoctorFindsDamage(t *testing.T) {
	written := stopped(t)
	file, restored := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "restored")
	must(t, "snapshot", "save", file, "--data-dir", written)
	must(t, "snapshot", "restore", file, "--data-dir", restored)
	objects := fmt.Sprintf("objects    %d\n", summary(t, file).Objects)
	for _, test := range []struct{ dir, files string }{
		{written, "*.log"},
		{restored, "*.sst"},
	} {
		if out := must(t, "doctor", "--data-dir", test.dir); !strings.Contains(out, objects) || !strings.Contains(out, "problems   none\n") {
			t.Errorf("%s before:\n%s", test.files, out)
		}
		damage(t, test.dir, test.files)
		before := contents(t, test.dir)
		code, stdout, stderr := kapokRun("doctor", "--data-dir", test.dir)
		if code != 1 || !strings.Contains(stdout, "damaged") || !strings.Contains(stdout, "--salvage") || !strings.HasPrefix(stderr, "kapok: the store has problems: ") {
			t.Errorf("%s: exit code %d:\n%s%s", test.files, code, stdout, stderr)
		}
		code, stdout, _ = kapokRun("doctor", "--data-dir", test.dir, "-o", "json")
		var report doctor.Report
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 1 || report.Healthy() {
			t.Errorf("%s: exit code %d, %v:\n%s", test.files, code, err, stdout)
		}
		if !maps.Equal(before, contents(t, test.dir)) {
			t.Errorf("%s: the directory was changed", test.files)
		}
	}
}

// The report of a running server is printed as it is.
func TestDoctorOfRunning(t *testing.T) {
	report := &doctor.Report{Revision: 7, Objects: 3, Records: 9, Bytes: 5000, Compacted: 2}
	for i := range doctor.MaxProblems + 2 {
		report.Add(doctor.Problem{Object: "pods/ns/a", Revision: 5, Text: fmt.Sprint("malformed record ", i)})
	}
	body, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	defer server.Close()
	kubeconfig := kubeconfigOf(t, server.URL)
	code, stdout, stderr := kapokRun("doctor", "--kubeconfig", kubeconfig)
	for _, want := range []string{
		"revision   7\nobjects    3\njournal    9 records, 4.9 KiB, history after revision 2\nproblems   1002\n\n",
		"\n  pods/ns/a: malformed record 0 (revision 5)\n", "\n  and 2 more\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("lacks %q:\n%s", want, stdout)
		}
	}
	if code != 1 || stderr != "kapok: the store has problems: 1002\n" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	code, stdout, _ = kapokRun("doctor", "--kubeconfig", kubeconfig, "-o", "json")
	var again doctor.Report
	if err := json.Unmarshal([]byte(stdout), &again); err != nil || code != 1 || len(again.Problems) != doctor.MaxProblems || again.More != 2 {
		t.Errorf("exit code %d, %v: %d problems", code, err, len(again.Problems))
	}
	body = []byte("<html>")
	if code, _, stderr := kapokRun("doctor", "--kubeconfig", kubeconfig); code != 1 || !strings.Contains(stderr, "the server's report") {
		t.Errorf("of no report: exit code %d: %s", code, stderr)
	}
}

// Credentials are examined with the store, of a stopped server and of a running one.
func TestDoctorLooksAtCredentials(t *testing.T) {
	dir := stopped(t)
	if out := must(t, "doctor", "--data-dir", dir); !strings.Contains(out, "problems   none\n") {
		t.Fatalf("before:\n%s", out)
	}
	if err := os.WriteFile(filepath.Join(dir, "pki", "front-proxy.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := kapokRun("doctor", "--data-dir", dir)
	if code != 1 || !strings.Contains(stdout, "pki/front-proxy.pem: it must have a certificate and an ECDSA key in PEM") {
		t.Errorf("of a stopped server: exit code %d:\n%s", code, stdout)
	}
	if err := os.Remove(filepath.Join(dir, "pki", "front-proxy.pem")); err != nil {
		t.Fatal(err)
	}
	serve(t, dir)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if out := must(t, "doctor", "--kubeconfig", kubeconfig); !strings.Contains(out, "problems   none\n") {
		t.Errorf("of a running server:\n%s", out)
	}
	if err := os.Chmod(filepath.Join(dir, "pki", "token"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ = kapokRun("doctor", "--kubeconfig", kubeconfig)
	if code != 1 || !strings.Contains(stdout, "pki/token: other users have access (mode -rw-r--r--)") {
		t.Errorf("of a running server: exit code %d:\n%s", code, stdout)
	}
}
