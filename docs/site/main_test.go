package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandLine checks exit codes and messages.
func TestCommandLine(t *testing.T) {
	for args, c := range map[string]struct {
		code int
		want string
	}{
		"--help":            {0, "Usage of site"},
		"x":                 {exitUsage, `unexpected argument "x"`},
		"--version ../x":    {exitUsage, `--version "../x"`},
		"--version .":       {exitUsage, `--version "."`},
		"--source kapok":    {exitUsage, `--source "kapok" is not a URL`},
		"--root /nowhere":   {exitFailure, "commit of /nowhere"},
		"--serve nowhere:x": {exitFailure, "listen tcp"},
	} {
		t.Run(args, func(t *testing.T) {
			var log bytes.Buffer
			code := run(t.Context(), strings.Fields(args), io.Discard, &log)
			if code != c.code || !strings.Contains(log.String(), c.want) {
				t.Errorf("code %d, %q: want %d, %q", code, log.String(), c.code, c.want)
			}
		})
	}
}

// TestRun writes the site of this repository.
func TestRun(t *testing.T) {
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--out", out, "--version", "v0.1.0"}, &stdout, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	page, err := os.ReadFile(filepath.Join(out, "v0.1.0", "docs", "getting-started.html"))
	if err != nil || !bytes.Contains(page, []byte("Getting started")) {
		t.Errorf("%.100s, %v", page, err)
	}
	if !strings.HasSuffix(stdout.String(), filepath.Join(out, "v0.1.0")+"\n") {
		t.Error(stdout.String())
	}
}

// TestServe checks that the address is printed, and that the end of the context ends the server.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stdout := writer(func(text string) {
		if text != "http://127.0.0.1:0/main/\n" && !strings.HasPrefix(text, "http://127.0.0.1:") {
			t.Errorf("printed %q", text)
		}
		stop()
	})
	if code := run(ctx, []string{"--serve", "127.0.0.1:0"}, stdout, io.Discard); code != 0 {
		t.Errorf("code %d", code)
	}
}

type writer func(string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

// TestPreview checks that each request of a page shows the documents as they are then.
func TestPreview(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, clone(nil)); err != nil {
		t.Fatal(err)
	}
	o := settings
	o.root = root
	p := &preview{options: o}
	get := func(path string) (int, string) {
		r := httptest.NewRecorder()
		p.ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
		return r.Code, r.Body.String()
	}
	change := func(text string) {
		if err := os.WriteFile(filepath.Join(root, "docs", "start.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int{"/": 302, "/v1.0.0": 302, "/v1.0.0/": 200, "/v1.0.0/docs/": 200, "/v1.0.0/assets/site.css": 200, "/v1.0.0/none.html": 404, "/other/": 404, "/versions.json": 200} {
		if code, body := get(path); code != want {
			t.Errorf("%s: %d, want %d: %.200s", path, code, want, body)
		}
	}
	change("# Changed\n\n## First step\n")
	if code, body := get("/v1.0.0/docs/start.html"); code != 200 || !strings.Contains(body, "Changed") {
		t.Errorf("%d %.200s", code, body)
	}
	change("# Broken\n\n[x](missing.md)\n")
	if code, body := get("/v1.0.0/docs/start.html"); code != 500 || !strings.Contains(body, "docs/start.md links to missing.md") {
		t.Errorf("%d %.200s", code, body)
	}
}
