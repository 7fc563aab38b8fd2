package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// testChannels reads the manifests, and looks for the checksums of the archives in them.
func testChannels(t *testing.T, r *release) {
	for file, archives := range map[string][]string{
		"channels/homebrew/kapok.rb":                    {"darwin-arm64.tar.gz", "darwin-amd64.tar.gz", "linux-arm64.tar.gz", "linux-amd64.tar.gz"},
		"channels/winget/KapokDev.Kapok.installer.yaml": {"windows-arm64.zip", "windows-amd64.zip"},
		"install.sh": {"darwin-arm64.tar.gz", "darwin-amd64.tar.gz", "linux-arm64.tar.gz", "linux-amd64.tar.gz", "windows-arm64.zip", "windows-amd64.zip"},
	} {
		text := read(t, r, file)
		for _, archive := range archives {
			name := "kapok-v1.2.3-rc.4-" + archive
			sum, err := r.sha256(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text, name) || !strings.Contains(strings.ToLower(text), sum) {
				t.Errorf("%s has not the name and the checksum %s of %s:\n%s", file, sum, name, text)
			}
		}
	}
	for file, want := range map[string]string{
		"channels/winget/KapokDev.Kapok.yaml":                   `"PackageVersion":"1.2.3-rc.4"`,
		"channels/winget/KapokDev.Kapok.installer.yaml":         `"RelativeFilePath":"kapok-v1.2.3-rc.4-windows-amd64\\kapok.exe"`,
		"channels/winget/KapokDev.Kapok.locale.en-US.yaml":      `"License":"Apache-2.0"`,
		"channels/setup-kapok/action.yml":                       `"using":"composite"`,
		"channels/devcontainer/kapok/devcontainer-feature.json": `"version":"1.2.3-rc.4"`,
	} {
		data, err := yaml.YAMLToJSONStrict([]byte(read(t, r, file)))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if !strings.Contains(string(data), want) || !json.Valid(data) {
			t.Errorf("%s has no %s: %s", file, want, data)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(read(t, r, "channels/launchd/dev.kapok.plist"))); ; {
		if _, err := d.Token(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("dev.kapok.plist: %v", err)
			}
			break
		}
	}
}

// testInstall runs install.sh with a server that has the release, and one with a damaged archive.
func testInstall(t *testing.T, r *release, version string) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	released := http.FileServer(http.Dir(r.dist))
	archive := "/" + r.name(target{runtime.GOOS, runtime.GOARCH}) + ".tar.gz"
	damage := func(edit func(data []byte) []byte) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path != archive {
				released.ServeHTTP(w, req)
				return
			}
			_, _ = w.Write(edit([]byte(read(t, r, strings.TrimPrefix(archive, "/")))))
		})
	}
	for name, tt := range map[string]struct {
		server http.Handler
		want   string // in the output; "" if the program is installed
	}{
		"released":  {released, ""},
		"corrupted": {damage(func(data []byte) []byte { data[len(data)/2] ^= 1; return data }), "it is not installed"},
		"cut off":   {damage(func(data []byte) []byte { return data[:len(data)/2] }), "it is not installed"},
		"empty":     {damage(func([]byte) []byte { return nil }), "it is not installed"},
		"missing":   {http.NotFoundHandler(), "cannot download"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.server)
			defer server.Close()
			dir := filepath.Join(t.TempDir(), "with space", "bin")
			out, err := install(t, r, server.URL, dir)
			program := filepath.Join(dir, "kapok")
			if tt.want != "" {
				if err == nil || !strings.Contains(out, tt.want) {
					t.Errorf("error %v, output %s, want %q", err, out, tt.want)
				}
				if _, err := os.Stat(program); err == nil {
					t.Error("the program is installed")
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got, err := exec.CommandContext(t.Context(), program, "version").CombinedOutput()
			if err != nil || !strings.HasPrefix(string(got), version) {
				t.Errorf("kapok version prints %s, error %v, want %s", got, err, version)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("the directory has %v, %v", entries, err)
			}
		})
	}
}

// install runs install.sh, which leaves nothing in the directory for temporary files.
func install(t *testing.T, r *release, url, dir string) (string, error) {
	t.Helper()
	temporary := t.TempDir()
	c := exec.CommandContext(t.Context(), "sh", filepath.Join(r.dist, "install.sh"))
	c.Env = append(os.Environ(), "KAPOK_BASE_URL="+url, "KAPOK_INSTALL_DIR="+dir, "TMPDIR="+temporary)
	out, err := c.CombinedOutput()
	if entries, err := os.ReadDir(temporary); err != nil || len(entries) > 0 {
		t.Errorf("install.sh leaves %v, %v", entries, err)
	}
	return string(out), err
}

// TestScripts checks the syntax of the scripts of packages.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join("packaging", "*.sh"))
	if err != nil || len(scripts) != 4 {
		t.Fatalf("scripts %q, %v", scripts, err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	for _, script := range scripts {
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
}

// TestServiceIsDocumented compares the unit of the packages and its settings with the page about
// services.
func TestServiceIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "service.md"))
	if err != nil {
		t.Fatal(err)
	}
	unit, err := packaging.ReadFile("packaging/kapok.service")
	if err != nil {
		t.Fatal(err)
	}
	shown := "    # /usr/lib/systemd/system/kapok.service\n"
	for line := range strings.Lines(string(unit)) {
		if line != "\n" {
			line = "    " + line
		}
		shown += line
	}
	if !strings.Contains(string(page), shown) {
		t.Errorf("docs/service.md does not show packaging/kapok.service:\n%s", shown)
	}
}
