package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
)

// tinyRelease makes a release of the tiny program: one build for this machine stands for all
// targets.
func tinyRelease(t *testing.T, dist string) *release {
	t.Helper()
	r := &release{
		options: options{version: "v1.2.3-rc.4", baseURL: "https://example.com/v1.2.3-rc.4", targets: allTargets(), module: ".", pkg: "./testdata/tiny"},
		source:  source{dir: "..", commit: strings.Repeat("c", 40), time: time.Unix(1767323044, 0).UTC()},
		dist:    dist, scratch: t.TempDir(), log: io.Discard,
	}
	own, err := r.build(t.Context(), target{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	r.own = &own
	for _, target := range r.targets {
		r.binaries = append(r.binaries, binary{target, own.path})
	}
	for _, step := range []func(context.Context) error{
		r.writeArchives, r.writeBills, r.writePackages, r.writeImage, r.writeEnvtest, r.writeChart, r.writeInstallers, r.writeProvenance, r.writeChecksums,
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestRelease(t *testing.T) {
	r := tinyRelease(t, t.TempDir())
	t.Run("names", func(t *testing.T) { testNames(t, r) })
	t.Run("checksums", func(t *testing.T) { testChecksums(t, r) })
	t.Run("bill", func(t *testing.T) { testBill(t, r) })
	t.Run("provenance", func(t *testing.T) { testProvenance(t, r) })
	t.Run("image", func(t *testing.T) { testImage(t, r) })
	t.Run("deb", func(t *testing.T) { testDeb(t, r) })
	t.Run("rpm", func(t *testing.T) { testRPM(t, r) })
	t.Run("envtest", func(t *testing.T) { testEnvtest(t, r) })
	t.Run("channels", func(t *testing.T) { testChannels(t, r) })
	t.Run("install", func(t *testing.T) { testInstall(t, r, "kapok v1.2.3-rc.4 true") })
	t.Run("reproducible", func(t *testing.T) { testReproducible(t, r) })
}

func testNames(t *testing.T, r *release) {
	want := []string{
		"channels/devcontainer/kapok/devcontainer-feature.json", "channels/devcontainer/kapok/install.sh", "channels/homebrew/kapok.rb",
		"channels/launchd/dev.kapok.plist", "channels/setup-kapok/action.yml", "channels/setup-kapok/install.sh",
		"channels/winget/KapokDev.Kapok.installer.yaml", "channels/winget/KapokDev.Kapok.locale.en-US.yaml", "channels/winget/KapokDev.Kapok.yaml",
		"checksums.txt", "envtest-releases.yaml", "install.sh", "kapok-1.2.3-rc.4.tgz", "kapok-v1.2.3-rc.4-image.tar", "kapok-v1.2.3-rc.4.intoto.json",
	}
	for _, target := range allTargets() {
		name := r.name(target)
		want = append(want, "envtest-v1.37.0-"+strings.ReplaceAll(target.String(), "/", "-")+".tar.gz", name+extension(target), name+".spdx.json")
		if target.os == "linux" {
			want = append(want, name+".deb", name+".rpm")
		}
	}
	slices.Sort(want)
	if got, err := r.released(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: files\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func testChecksums(t *testing.T, r *release) {
	names, err := r.released()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(read(t, r, checksumsName), "\n"), "\n")
	if len(lines) != len(names)-1 {
		t.Errorf("%d checksums of %d files", len(lines), len(names))
	}
	for _, line := range lines {
		want, name, _ := strings.Cut(line, "  ")
		if got, err := r.sha256(name); err != nil || got != want {
			t.Errorf("%s has the checksum %s, error %v, want %s", name, got, err, want)
		}
	}
}

func testBill(t *testing.T, r *release) {
	d, err := spdx.Read(strings.NewReader(read(t, r, "kapok-v1.2.3-rc.4-windows-arm64.spdx.json")))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(d); err != nil {
		t.Error(err)
	}
	var locators []string
	for _, p := range d.Packages {
		locators = append(locators, p.PackageExternalReferences[0].Locator)
	}
	if len(locators) != 3 || locators[0] != "pkg:golang/github.com/kapok-dev/kapok/release@v1.2.3-rc.4" || !strings.HasPrefix(locators[2], "pkg:golang/golang.org/x/mod@v0.") {
		t.Errorf("packages %q", locators)
	}
}

func testProvenance(t *testing.T, r *release) {
	var s statement
	if err := json.Unmarshal([]byte(read(t, r, "kapok-v1.2.3-rc.4.intoto.json")), &s); err != nil {
		t.Fatal(err)
	}
	d := s.Predicate.BuildDefinition
	if d.ResolvedDependencies[0].Digest["gitCommit"] != r.commit || d.InternalParameters.Go != runtime.Version() || d.ExternalParameters.Version != r.version {
		t.Errorf("definition %+v", d)
	}
	for _, subject := range s.Subject {
		if sum, err := r.sha256(subject.Name); err != nil || subject.Digest["sha256"] != sum {
			t.Errorf("%s: digest %v, error %v, want %s", subject.Name, subject.Digest, err, sum)
		}
	}
	if len(s.Subject) < 20 {
		t.Errorf("only %d subjects", len(s.Subject))
	}
}

// testImage reads the image with the library, which compares all digests.
func testImage(t *testing.T, r *release) {
	dir := t.TempDir()
	unpackTar(t, filepath.Join(r.dist, "kapok-v1.2.3-rc.4-image.tar"), dir)
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(root); err != nil {
		t.Error(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != r.version {
		t.Fatalf("index %+v", manifest)
	}
	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("images %+v, %v", manifest, err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		image, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || manifest.Manifests[i].Platform.Architecture != arch || config.Config.User != "65532:65532" ||
			!slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/kapok"}) || config.Config.Labels["org.opencontainers.image.revision"] != r.commit || !config.Created.Equal(r.time) {
			t.Errorf("configuration of %s: %+v", arch, config)
		}
	}
}

// unpackTar unpacks an archive by the program of the system, which is another reader than Go's.
func unpackTar(t *testing.T, archive, dir string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
}

func testDeb(t *testing.T, r *release) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	deb := filepath.Join(r.dist, "kapok-v1.2.3-rc.4-linux-arm64.deb")
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"--field", deb, "Package", "Version", "Architecture", "Depends"}, []string{"Package: kapok\n", "Version: 1.2.3~rc.4\n", "Architecture: arm64\n", "Depends: passwd"}},
		{[]string{"--contents", deb}, []string{
			"-rwxr-xr-x root/root", "./usr/bin/kapok", "./usr/lib/systemd/system/kapok.service", "./etc/default/kapok", "./usr/share/man/man1/kapok.1.gz",
			"./usr/share/bash-completion/completions/kapok", "./usr/share/zsh/vendor-completions/_kapok", "./usr/share/fish/vendor_completions.d/kapok.fish",
			"./usr/share/doc/kapok/copyright", "2026-01-02",
		}},
		{[]string{"--info", deb}, []string{"conffiles", "preinst", "postinst", "prerm", "postrm"}},
	} {
		c := exec.CommandContext(t.Context(), "dpkg-deb", tt.args...)
		c.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg-deb: %v: %s", err, out)
		}
		for _, want := range tt.want {
			if !bytes.Contains(out, []byte(want)) {
				t.Errorf("dpkg-deb %s has no %q:\n%s", tt.args[0], want, out)
			}
		}
	}
}

// testRPM looks at the lead of the package, and for what its headers hold as plain text.
func testRPM(t *testing.T, r *release) {
	text := read(t, r, "kapok-v1.2.3-rc.4-linux-amd64.rpm")
	if !strings.HasPrefix(text, "\xed\xab\xee\xdb") {
		t.Errorf("it begins with %q, which is no lead of rpm", text[:4])
	}
	for _, want := range []string{"1.2.3~rc.4", "x86_64", "kapok.service", "_kapok", "kapok.1.gz", "shadow-utils", "useradd --system", "localhost", "Apache-2.0"} {
		if !strings.Contains(text, want) {
			t.Errorf("it has no %q", want)
		}
	}
	if host, err := os.Hostname(); err == nil && len(host) > 6 && host != "localhost" && strings.Contains(text, host) {
		t.Errorf("it has the name of this machine, %s", host)
	}
}

// testReproducible makes the release again, with other temporary directories.
func testReproducible(t *testing.T, r *release) {
	again := tinyRelease(t, t.TempDir())
	compare(t, r.dist, again.dist)
}

// compare fails if two directories differ.
func compare(t *testing.T, one, other string) {
	t.Helper()
	count := 0
	err := filepath.WalkDir(one, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(one, path)
		if err != nil {
			return err
		}
		a, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			return err
		}
		if count++; !bytes.Equal(a, b) {
			t.Errorf("%s differs", name)
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Errorf("compared %d files: %v", count, err)
	}
}

// read returns the content of a released file.
func read(t *testing.T, r *release, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dist, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestMakeRelease makes a release of one target as the command does.
func TestMakeRelease(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a", "dist")
	o := options{version: "v1.2.3", out: out, targets: []target{{runtime.GOOS, runtime.GOARCH}}, module: ".", pkg: "./testdata/tiny"}
	s := source{dir: "..", commit: strings.Repeat("c", 40), time: time.Unix(1767323044, 0).UTC()}
	var log bytes.Buffer
	if err := makeRelease(t.Context(), o, s, &log); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, checksumsName)); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) != 1 {
		t.Errorf("beside the directory: %v, %v", entries, err)
	}
	if !strings.Contains(log.String(), "channels/winget/KapokDev.Kapok.yaml is left out") {
		t.Errorf("what is left out is not logged:\n%s", log.String())
	}
	if err := makeRelease(t.Context(), o, s, &log); err == nil || !strings.Contains(err.Error(), "has files") {
		t.Errorf("a second release into the directory: %v", err)
	}
	o.out, o.pkg = filepath.Join(t.TempDir(), "dist"), "./testdata/none"
	if err := makeRelease(t.Context(), o, s, &log); err == nil {
		t.Error("a package that does not exist is built")
	}
	if _, err := os.Stat(o.out); err == nil {
		t.Error("a release that has failed leaves a directory")
	}
}
