package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/node/internal/rootfs"
	"github.com/kapok-dev/kapok/node/process"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newImage returns an image with a layer for each group of files NAME=CONTENT.
func newImage(t *testing.T, layers ...[]string) v1.Image {
	t.Helper()
	image := v1.Image(empty.Image)
	for _, files := range layers {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range files {
			name, content, _ := strings.Cut(f, "=")
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, content); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
		if err != nil {
			t.Fatal(err)
		}
		if image, err = mutate.AppendLayers(image, l); err != nil {
			t.Fatal(err)
		}
	}
	return configured(t, image, func(c *v1.ConfigFile) {
		c.OS, c.Architecture = runtime.GOOS, runtime.GOARCH
		c.Config.Entrypoint, c.Config.Cmd, c.Config.Env, c.Config.WorkingDir = []string{"/app"}, []string{"-x"}, []string{"A=1"}, "/work"
	})
}

func configured(t *testing.T, image v1.Image, change func(*v1.ConfigFile)) v1.Image {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	change(config)
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

func newStore(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.usage = func(string) (int, error) { return 0, nil }
	return s
}

func idOf(t *testing.T, image v1.Image) string {
	t.Helper()
	h, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// check checks an image that was pulled, and its files.
func check(t *testing.T, got *process.Image, want v1.Image, files map[string]string) {
	t.Helper()
	if got.ID != idOf(t, want) || !slices.Equal(got.Entrypoint, []string{"/app"}) || !slices.Equal(got.Cmd, []string{"-x"}) || !slices.Equal(got.Env, []string{"A=1"}) || got.WorkingDir != "/work" {
		t.Errorf("the image is %+v", got)
	}
	size := 0
	for name, content := range files {
		data, err := os.ReadFile(filepath.Join(got.Root, name))
		if err != nil || string(data) != content {
			t.Errorf("%s is %q, %v, want %q", name, data, err, content)
		}
		size += len(data)
	}
	if got.Size < int64(size) {
		t.Errorf("the size is %d, want %d or more", got.Size, size)
	}
}

// TestArchives reads an image from each form of an archive.
func TestArchives(t *testing.T) {
	image := newImage(t, []string{"app=old", "lib/gone=x"}, []string{"app=new", "lib/.wh.gone="})
	dir := t.TempDir()
	docker := filepath.Join(dir, "docker.tar")
	tag, err := name.NewTag("web:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(docker, tag, image); err != nil {
		t.Fatal(err)
	}
	zipped := filepath.Join(dir, "docker.tar.gz")
	data, err := os.ReadFile(docker)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	if err := os.WriteFile(zipped, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	ociDir := filepath.Join(dir, "layout")
	path, err := layout.Write(ociDir, mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: newImage(t, []string{"other=1"}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "plan9", Architecture: "mips"}}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}}}))
	if err != nil {
		t.Fatal(err)
	}
	ociTar := filepath.Join(dir, "oci.tar")
	b.Reset()
	w := tar.NewWriter(&b)
	if err := w.AddFS(os.DirFS(string(path))); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := os.WriteFile(ociTar, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, archive := range []string{docker, zipped, ociDir, ociTar} {
		s := newStore(t, Options{})
		got, err := s.Pull(t.Context(), process.ImageRequest{Archive: archive})
		if err != nil {
			t.Errorf("%s: %v", archive, err)
			continue
		}
		check(t, got, image, map[string]string{"app": "new"})
		if _, err := os.Stat(filepath.Join(got.Root, "lib/gone")); err == nil {
			t.Errorf("%s: a whiteout has no effect", archive)
		}
		if entries, err := os.ReadDir(filepath.Join(s.options.Dir, "tmp")); err != nil || len(entries) > 0 {
			t.Errorf("%s: left in tmp are %v, %v", archive, entries, err)
		}
	}
}

// TestPolicies changes an archive, and reads it with each policy.
func TestPolicies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.tar")
	write := func(content string) v1.Image {
		image := newImage(t, []string{"app=" + content})
		tag, _ := name.NewTag("web")
		if err := tarball.WriteToFile(file, tag, image); err != nil {
			t.Fatal(err)
		}
		return image
	}
	s := newStore(t, Options{})
	r := process.ImageRequest{Archive: file, Policy: corev1.PullNever}
	first := write("1")
	if _, err := s.Pull(t.Context(), r); !errors.Is(err, process.ErrNotPresent) {
		t.Errorf("Never without the image: %v", err)
	}
	pull := func(policy corev1.PullPolicy, want v1.Image, content string) {
		t.Helper()
		r.Policy = policy
		got, err := s.Pull(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		check(t, got, want, map[string]string{"app": content})
	}
	pull(corev1.PullIfNotPresent, first, "1")
	second := write("2")
	pull(corev1.PullNever, first, "1")
	pull(corev1.PullIfNotPresent, second, "2") // an archive is read before each start
	pull(corev1.PullNever, second, "2")

	// Another Store in the directory has the images, and does not share it.
	if other := newStore(t, Options{Dir: s.options.Dir}); runtime.GOOS == "linux" {
		if _, err := other.Pull(t.Context(), r); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("two Stores in a directory: %v", err)
		}
	}
	s.Close()
	s = newStore(t, Options{Dir: s.options.Dir})
	pull(corev1.PullNever, second, "2")
	if err := os.WriteFile(filepath.Join(s.options.Dir, referenceFile(r.Source())), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Policy = corev1.PullNever
	if _, err := s.Pull(t.Context(), r); !errors.Is(err, process.ErrNotPresent) {
		t.Errorf("Never with a damaged reference: %v", err)
	}
	pull(corev1.PullAlways, second, "2")
}

// TestRejects reads archives that are wrong: nothing of them is left.
func TestRejects(t *testing.T) {
	wrong := func(change func(*v1.ConfigFile)) string {
		file := filepath.Join(t.TempDir(), "a.tar")
		tag, _ := name.NewTag("web")
		if err := tarball.WriteToFile(file, tag, configured(t, newImage(t, []string{"app=1", "b=" + strings.Repeat("x", 10000)}), change)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, archive := range map[string]string{
		"this machine is": wrong(func(c *v1.ConfigFile) { c.Architecture = "mips" }),
		"its digest is":   wrong(func(c *v1.ConfigFile) { c.RootFS.DiffIDs[0].Hex = strings.Repeat("0", 64) }),
		"1 layer":         wrong(func(c *v1.ConfigFile) { c.RootFS.DiffIDs = nil }),
		"too large":       wrong(func(*v1.ConfigFile) {}),
		"neither":         text,
		"no such file":    filepath.Join(t.TempDir(), "absent"),
	} {
		o := Options{}
		if want == "too large" {
			o.MaxBytes = 10000
		}
		s := newStore(t, o)
		_, err := s.Pull(t.Context(), process.ImageRequest{Archive: archive})
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, rootfs.ErrTooLarge) != (want == "too large") {
			t.Errorf("got %v, want %q", err, want)
		}
		for _, dir := range []string{"tmp", "images", "references"} {
			if entries, err := os.ReadDir(filepath.Join(s.options.Dir, dir)); err != nil || len(entries) > 0 {
				t.Errorf("%s: left in %s are %v, %v", want, dir, entries, err)
			}
		}
	}
}

// A server is a registry that counts requests for layers, and demands a password for repositories
// below private.
type server struct {
	*httptest.Server
	blobs atomic.Int64
}

func newRegistry(t *testing.T) *server {
	t.Helper()
	s := &server{}
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); strings.Contains(r.URL.Path, "/private/") && (user != "jane" || password != "secret") {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet {
			s.blobs.Add(1)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) reference(repository string) string {
	return strings.TrimPrefix(s.URL, "http://") + "/" + repository
}

func (s *server) push(t *testing.T, reference string, image v1.Image) {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	if err := remote.Write(ref, image, remote.WithAuth(&authn.Basic{Username: "jane", Password: "secret"}), remote.WithTransport(transport)); err != nil {
		t.Fatal(err)
	}
}

func TestRegistry(t *testing.T) {
	r := newRegistry(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	s := newStore(t, Options{Transport: transport})
	reference := r.reference("acme/web:1")
	first := newImage(t, []string{"app=1"})
	r.push(t, reference, first)
	q := process.ImageRequest{Reference: reference, Policy: corev1.PullIfNotPresent}

	// Several pods pull it at the same time: it is read once.
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			got, err := s.Pull(context.Background(), q)
			if err != nil {
				t.Error(err)
				return
			}
			check(t, got, first, map[string]string{"app": "1"})
			if !strings.HasPrefix(got.Reference, r.reference("acme/web@sha256:")) {
				t.Errorf("the reference is %s", got.Reference)
			}
		})
	}
	group.Wait()
	if n := r.blobs.Load(); n != 2 {
		t.Errorf("%d blobs were read, want a configuration and a layer", n)
	}
	if len(s.locks) > 0 {
		t.Errorf("%d locks are left", len(s.locks))
	}

	second := newImage(t, []string{"app=2"})
	r.push(t, reference, second)
	for _, test := range []struct {
		policy corev1.PullPolicy
		want   v1.Image
		text   string
	}{{corev1.PullIfNotPresent, first, "1"}, {corev1.PullNever, first, "1"}, {corev1.PullAlways, second, "2"}, {corev1.PullIfNotPresent, second, "2"}} {
		q.Policy = test.policy
		got, err := s.Pull(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		check(t, got, test.want, map[string]string{"app": test.text})
	}
	before := r.blobs.Load()
	q.Policy = corev1.PullAlways
	if _, err := s.Pull(t.Context(), q); err != nil || r.blobs.Load() > before+1 { // the configuration
		t.Errorf("an image that has not changed: %d blobs, %v", r.blobs.Load()-before, err)
	}
	for _, bad := range []string{r.reference("acme/absent"), "UPPER/case", "a@b@c"} {
		if _, err := s.Pull(t.Context(), process.ImageRequest{Reference: bad}); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}

// TestSecrets reads a repository that needs a password.
func TestSecrets(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // no credentials of this user
	r := newRegistry(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	s := newStore(t, Options{Transport: transport})
	reference := r.reference("private/web:1")
	r.push(t, reference, newImage(t, []string{"app=1"}))
	host := strings.TrimPrefix(r.URL, "http://")
	secret := func(key, user string) corev1.Secret {
		auth := base64.StdEncoding.EncodeToString([]byte(user + ":secret"))
		return corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
			corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, key, auth),
		}}
	}
	legacy := corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{
		corev1.DockerConfigKey: fmt.Appendf(nil, `{%q:{"username":"jane","password":"secret"}}`, "http://"+host+"/v1/"),
	}}
	broken := corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"x":{"auth":"?"}}}`)}}
	for _, test := range []struct {
		name    string
		secrets []corev1.Secret
		ok      bool
	}{
		{"none", nil, false},
		{"another registry", []corev1.Secret{secret("example.com", "jane")}, false},
		{"another user", []corev1.Secret{secret(host, "joe")}, false},
		{"another repository", []corev1.Secret{secret(host+"/private/web2", "jane")}, false},
		{"the registry", []corev1.Secret{broken, secret(host, "jane")}, true},
		{"the repository", []corev1.Secret{secret(host, "joe"), secret(host+"/private", "jane")}, true},
		{"the old form", []corev1.Secret{legacy}, true},
	} {
		_, err := s.Pull(t.Context(), process.ImageRequest{Reference: reference, Policy: corev1.PullAlways, Secrets: test.secrets})
		if (err == nil) != test.ok {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}

func TestHostMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, host string
		want          bool
	}{
		{"a.example.com", "a.example.com", true}, {"*.example.com", "a.example.com", true}, {"*.example.com", "example.com", false},
		{"*.example.com", "a.b.example.com", false}, {"a*.example.com:5000", "ab.example.com:5000", true}, {"*.example.com:5000", "a.example.com", false},
		{"*", "localhost", true}, {"[", "a", false},
	} {
		if got := hostMatches(test.pattern, test.host); got != test.want {
			t.Errorf("%s, %s: got %v", test.pattern, test.host, got)
		}
	}
	if host, path := split("https://docker.io/acme/"); host != name.DefaultRegistry || path != "acme" {
		t.Errorf("docker.io: got %s, %s", host, path)
	}
}

// TestCollect ages images, and fills the disk.
func TestCollect(t *testing.T) {
	s := newStore(t, Options{})
	ids := map[string]string{}
	age := func(n string, d time.Duration) {
		dir, _ := dirOf(ids[n])
		at := time.Now().Add(-d)
		if err := s.root.Chtimes(filepath.Join(dir, "image.json"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	file := func(n string) string { return filepath.Join(s.options.Dir, n+".tar") }
	for _, n := range []string{"new", "old", "older", "used", "ancient"} {
		tag, _ := name.NewTag("web")
		if err := tarball.WriteToFile(file(n), tag, newImage(t, []string{"app=" + n, "dir/file=x"})); err != nil {
			t.Fatal(err)
		}
		got, err := s.Pull(t.Context(), process.ImageRequest{Archive: file(n)})
		if err != nil {
			t.Fatal(err)
		}
		ids[n] = got.ID
	}
	age("old", time.Hour)
	age("older", 2*time.Hour)
	age("used", 100*24*time.Hour)
	age("ancient", 8*24*time.Hour)
	left := func(want ...string) {
		t.Helper()
		var got []string
		for _, n := range []string{"new", "old", "older", "used", "ancient"} {
			_, err := s.Pull(t.Context(), process.ImageRequest{Archive: file(n), Policy: corev1.PullNever})
			if err == nil {
				got = append(got, n)
			} else if !errors.Is(err, process.ErrNotPresent) {
				t.Error(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("images %v are left, want %v", got, want)
		}
	}
	inUse := func(id string) bool { return id == ids["used"] }
	if err := s.Collect(inUse); err != nil {
		t.Fatal(err)
	}
	left("new", "old", "older", "used")
	age("old", time.Hour)
	age("older", 2*time.Hour)
	age("used", time.Hour)
	usages := []int{90, 80}
	s.usage = func(string) (int, error) {
		u := usages[0]
		if len(usages) > 1 {
			usages = usages[1:]
		}
		return u, nil
	}
	if err := s.Collect(inUse); err != nil {
		t.Fatal(err)
	}
	left("new", "old", "used")
	age("old", time.Hour)
	usages = []int{99}
	if err := s.Collect(inUse); err != nil {
		t.Fatal(err)
	}
	left("new", "used") // the new one was used just now
	if entries, err := os.ReadDir(filepath.Join(s.options.Dir, "references")); err != nil || len(entries) != 2 {
		t.Errorf("%d references are left, %v, want 2", len(entries), err)
	}
}
