package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/snapshot"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// kapokRun runs a command to its end, in this process.
func kapokRun(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

// must runs a command that works, and returns what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := kapokRun(args...)
	if code != 0 || stderr != "" {
		t.Fatalf("kapok %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// served is a running kapok, with a client.
type served struct {
	*process
	dir, kubeconfig string
	*kubernetes.Clientset
}

func serve(t *testing.T, dir string, args ...string) *served {
	t.Helper()
	s := &served{dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	s.process = launch(t, append([]string{"up", "--listen=127.0.0.1:0", "--data-dir", dir, "--service-accounts=false", "--controllers="}, args...)...)
	config := s.ready(t, s.kubeconfig)
	config.QPS = -1
	var err error
	if s.Clientset, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *served) stop(t *testing.T) {
	t.Helper()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, out := s.end(t); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
}

func (s *served) create(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"of": name}}
		if _, err := s.CoreV1().ConfigMaps("default").Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *served) configMaps(t *testing.T) *corev1.ConfigMapList {
	t.Helper()
	list, err := s.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What every user does: save while the server runs, look at the file, restore it
// elsewhere, start from that.
func TestSnapshotRoundTrip(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	base := t.TempDir()
	file := filepath.Join(base, "backup.snapshot")
	first := serve(t, filepath.Join(base, "first"))
	first.create(t, "a", "b", "c")
	before := first.configMaps(t)

	out := must(t, "snapshot", "save", file, "--kubeconfig", first.kubeconfig)
	saved := summary(t, file)
	if want := fmt.Sprintf("of revision %d to %s.\n", saved.Revision, file); !strings.HasSuffix(out, want) {
		t.Errorf("%s, want %s", out, want)
	}
	// A server that has just started may write an object of its own in between.
	if atLeast, err := strconv.ParseInt(before.ResourceVersion, 10, 64); err != nil || int64(saved.Revision) < atLeast {
		t.Errorf("revision %d is older than the list of revision %s (%v)", saved.Revision, before.ResourceVersion, err)
	}
	revision := strconv.FormatInt(int64(saved.Revision), 10)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v: %v", info, err)
	}
	out = must(t, "snapshot", "inspect", file)
	all := saved.Objects
	for _, want := range []string{"revision     " + revision + "\n", "v1.37", "checksum ok", "\nconfigmaps +5  ", "\nnamespaces +4  ", fmt.Sprintf("\ntotal +%d  ", all)} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("inspect lacks %q:\n%s", want, out)
		}
	}
	if out := must(t, "doctor", "--kubeconfig", first.kubeconfig); !strings.Contains(out, "problems   none\n") {
		t.Errorf("doctor:\n%s", out)
	}

	// Clients of the first server see what the snapshot does not have.
	first.create(t, "later")
	later := first.configMaps(t).ResourceVersion
	first.stop(t)

	second := filepath.Join(base, "second")
	out = must(t, "snapshot", "restore", file, "--data-dir", second)
	if want := fmt.Sprintf("Restored %d objects of revision %s", all, revision); !strings.HasPrefix(out, want) || !strings.Contains(out, "kapok up --data-dir "+second) {
		t.Errorf("%s, want %s", out, want)
	}
	restored := serve(t, second)
	after := restored.configMaps(t)
	if !equalItems(before.Items, after.Items) {
		t.Errorf("before:\n%v\nafter:\n%v", before.Items, after.Items)
	}
	restored.create(t, "new")
	latest := restored.configMaps(t)
	if i := slices.IndexFunc(latest.Items, func(c corev1.ConfigMap) bool { return c.Name == "new" }); i < 0 || len(latest.Items[i].ResourceVersion) < 10 {
		t.Errorf("the new object is of revision %v", latest.Items)
	}
	for _, old := range []string{before.ResourceVersion, later} {
		w, err := restored.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: old})
		if err != nil {
			t.Fatal(err)
		}
		event := <-w.ResultChan()
		w.Stop()
		if event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			t.Errorf("a watch from %s gets %v", old, event)
		}
	}
	restored.stop(t)
}

func equalItems(a, b []corev1.ConfigMap) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.ConfigMap) bool {
		p, _ := json.Marshal(x)
		q, _ := json.Marshal(y)
		return bytes.Equal(p, q)
	})
}

// stopped makes the data directory of a server that has stopped, with 20 objects of
// which some were changed.
func stopped(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	for i := range 20 {
		s.create(t, fmt.Sprint("c", i))
	}
	for i := range 5 {
		patch := []byte(`{"data":{"more":"x"}}`)
		if _, err := s.CoreV1().ConfigMaps("default").Patch(t.Context(), fmt.Sprint("c", i), "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.stop(t)
	return s.dir
}

// contents are the names and bytes of all files.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A stopped server's directory is read and not changed, and both ways of reading
// it give the same objects.
func TestSnapshotOfStopped(t *testing.T) {
	dir := stopped(t)
	before := contents(t, dir)
	file, salvaged := filepath.Join(t.TempDir(), "saved"), filepath.Join(t.TempDir(), "salvaged")
	must(t, "snapshot", "save", file, "--data-dir", dir)
	must(t, "snapshot", "save", salvaged, "--data-dir", dir, "--salvage")
	must(t, "doctor", "--data-dir", dir)
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Error("the directory was changed")
	}
	a, b := summary(t, file), summary(t, salvaged)
	a.Time, b.Time = time.Time{}, time.Time{}
	if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y || configMapsOf(a) != 20+2 || a.Salvaged {
		t.Errorf("%s, and salvaged %s", x, y)
	}
}

// summary returns the output of kapok snapshot inspect -o json.
func summary(t *testing.T, file string) (s snapshot.Summary) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, "snapshot", "inspect", file, "-o", "json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func configMapsOf(s snapshot.Summary) int {
	for _, r := range s.Resources {
		if r.Resource == "configmaps" {
			return r.Objects
		}
	}
	return 0
}

// Of a damaged store the rest is saved, and said what is missing.
func TestSnapshotSalvage(t *testing.T) {
	dir := stopped(t)
	whole := filepath.Join(t.TempDir(), "whole")
	must(t, "snapshot", "save", whole, "--data-dir", dir)
	damage(t, dir, "*.log")
	file := filepath.Join(t.TempDir(), "rest")
	code, _, stderr := kapokRun("snapshot", "save", file, "--data-dir", dir)
	if code != 1 || !strings.Contains(stderr, "damaged") || !strings.Contains(stderr, "--salvage") || exists(file) {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
	code, stdout, stderr := kapokRun("snapshot", "save", file, "--data-dir", dir, "--salvage")
	if code != 0 || !strings.Contains(stderr, "Unreadable or missing data:\n") {
		t.Fatalf("exit code %d:\n%s%s", code, stdout, stderr)
	}
	s := summary(t, file)
	if !s.Salvaged || s.Objects == 0 || s.Objects >= summary(t, whole).Objects {
		t.Errorf("%+v", s)
	}
	if out := must(t, "snapshot", "inspect", file); !strings.Contains(out, "salvaged") {
		t.Errorf("inspect does not say that it was salvaged:\n%s", out)
	}
	again := filepath.Join(t.TempDir(), "again")
	code, _, stderr = kapokRun("snapshot", "restore", file, "--data-dir", again)
	if code != 0 || !strings.HasPrefix(stderr, "Warning: the snapshot was salvaged") {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
	must(t, "doctor", "--data-dir", again)
}

// damage alters 100 bytes in the largest file of a store that has such a name.
func damage(t *testing.T, dir, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "journal", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %v", files, err)
	}
	var largest string
	var content []byte
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > len(content) {
			largest, content = file, b
		}
	}
	for i := range 100 {
		content[len(content)/2+i] ^= 0x55
	}
	if err := os.WriteFile(largest, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Where nothing is left, nothing is saved.
func TestSnapshotSalvageNothing(t *testing.T) {
	base := t.TempDir()
	first, dir, file := filepath.Join(base, "first"), filepath.Join(base, "data"), filepath.Join(base, "rest")
	o, err := object.New(object.Key{Resource: schema.GroupResource{Resource: "nodes"}, Name: "a"},
		map[string]any{"metadata": map[string]any{"name": "a", "uid": "u"}, "data": strings.Repeat("x", 500)}, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	o.Revision = 1
	if _, err := snapshot.WriteFile(first, func(w io.Writer) error {
		return snapshot.Write(w, snapshot.Header{Revision: 1}, slices.Values([]*object.Object{o}))
	}); err != nil {
		t.Fatal(err)
	}
	must(t, "snapshot", "restore", first, "--data-dir", dir)
	for name := range contents(t, filepath.Join(dir, "journal")) {
		if err := os.WriteFile(name, []byte("what is left after a fire"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, stderr := kapokRun("snapshot", "save", file, "--data-dir", dir, "--salvage")
	if code != 1 || !strings.Contains(stderr, "no object in the store in "+dir+" can be read") || exists(file) {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
	if code, stdout, _ := kapokRun("doctor", "--data-dir", dir); code != 1 || !strings.Contains(stdout, "objects    0\n") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
}

// A restored store may be encrypted, and then is read with the same configuration
// only.
func TestSnapshotEncrypted(t *testing.T) {
	dir := stopped(t)
	base := t.TempDir()
	file, config := filepath.Join(base, "plain"), filepath.Join(base, "encryption.yaml")
	must(t, "snapshot", "save", file, "--data-dir", dir)
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	if err := os.WriteFile(config, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [configmaps]
  providers:
  - aesgcm: {keys: [{name: key1, secret: `+key+`}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	sealed := filepath.Join(base, "sealed")
	must(t, "snapshot", "restore", file, "--data-dir", sealed, "--encryption-provider-config", config)
	found := false
	for _, content := range contents(t, sealed) {
		found = found || strings.Contains(content, "k8s:enc:aesgcm:v1:key1:")
	}
	if !found {
		t.Error("nothing is encrypted")
	}
	again := filepath.Join(base, "again")
	must(t, "snapshot", "save", again, "--data-dir", sealed, "--encryption-provider-config", config)
	if a, b := summary(t, file), summary(t, again); fmt.Sprint(a.Resources) != fmt.Sprint(b.Resources) {
		t.Errorf("%v, want %v", b.Resources, a.Resources)
	}
	must(t, "doctor", "--data-dir", sealed, "--encryption-provider-config", config)
	for _, args := range [][]string{{"snapshot", "save", again, "--data-dir", sealed}, {"doctor", "--data-dir", sealed}} {
		if code, _, stderr := kapokRun(args...); code != 1 || !strings.Contains(stderr, "encrypt") {
			t.Errorf("without the key, %v: exit code %d\n%s", args, code, stderr)
		}
	}
}

// kubeconfig writes one for a server that speaks plain HTTP.
func kubeconfigOf(t *testing.T, url string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err := os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: "`+url+`"}}], contexts: [{name: c, context: {cluster: c}}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSnapshotServerFails(t *testing.T) {
	var answer http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer server.Close()
	kubeconfig := kubeconfigOf(t, server.URL)
	whole := func(w http.ResponseWriter) {
		_ = snapshot.Write(w, snapshot.Header{Revision: 5}, slices.Values([]*object.Object(nil)))
	}
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"not there", http.NotFound, "it is not Kapok, or an older version"},
		{"forbidden", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			fmt.Fprint(w, `{"kind":"Status","message":"User \"jane\" cannot get path"}`)
		}, `returned: User "jane" cannot get path`},
		{"no words", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, "returned 502 Bad Gateway"},
		{"breaks off", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "kapok snapshot v1\n{}\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "the server ended the response early"},
		{"foreign", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>\n") }, "not a snapshot of Kapok"},
		{"half", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "kapok snapshot v1\n") }, "snapshot is cut off"},
	} {
		answer = test.answer
		dir := t.TempDir()
		code, _, stderr := kapokRun("snapshot", "save", filepath.Join(dir, "backup"), "--kubeconfig", kubeconfig)
		if code != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, want %s\n%s", test.name, code, test.want, stderr)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s leaves %v", test.name, left)
		}
	}
	answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "the newest writes may be missing"`)
		whole(w)
	}
	code, stdout, stderr := kapokRun("snapshot", "save", filepath.Join(t.TempDir(), "backup"), "--kubeconfig", kubeconfig)
	if code != 0 || !strings.Contains(stdout, "Saved 0 objects of revision 5") || stderr != "Warning: the newest writes may be missing\n" {
		t.Errorf("with a warning: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// An interrupted save leaves no partial file.
func TestSnapshotInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	asked, done := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "kapok snapshot v1\n{}\n")
		_ = http.NewResponseController(w).Flush()
		close(asked)
		<-r.Context().Done()
		close(done)
	}))
	defer server.Close()
	dir := t.TempDir()
	p := launch(t, "snapshot", "save", filepath.Join(dir, "backup"), "--kubeconfig", kubeconfigOf(t, server.URL))
	<-asked
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code, out := p.end(t); code != 1 || out != "kapok: interrupted: nothing was saved\n" {
		t.Errorf("exit code %d\n%s", code, out)
	}
	<-done
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

func TestSnapshotRestoreInterrupted(t *testing.T) {
	file, dir := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
	if _, err := snapshot.WriteFile(file, func(w io.Writer) error {
		return snapshot.Write(w, snapshot.Header{Revision: 5}, slices.Values([]*object.Object(nil)))
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := restore{dataDir: dir}
	if err := r.run(ctx, file, io.Discard, io.Discard); err == nil || err.Error() != "interrupted: nothing was restored" || exists(dir) {
		t.Errorf("%v", err)
	}
}

func TestSnapshotErrors(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_DATA_HOME", base)
	path := func(name string) string { return filepath.Join(base, name) }
	var good bytes.Buffer
	if err := snapshot.Write(&good, snapshot.Header{Revision: 5}, slices.Values([]*object.Object(nil))); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"good": good.String(), "cut": good.String()[:good.Len()-1], "text": "kind: List\n", "empty": "",
		"flipped": strings.Replace(good.String(), "5", "6", 1), "newer": "kapok snapshot v7\n",
		"not-a-kubeconfig": "::", "not-encryption": "kind: Secret",
	} {
		if err := os.WriteFile(path(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	occupied := path("occupied")
	must(t, "snapshot", "restore", path("good"), "--data-dir", occupied)
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"snapshot nope", 2, `unknown command "nope" for "kapok snapshot"`},
		{"snapshot save", 2, "FILE is missing: run kapok snapshot save FILE"},
		{"snapshot save a b", 2, `want one FILE, got ["a" "b"]`},
		{"snapshot save FILE --nope", 2, "unknown flag: --nope"},
		{"snapshot save FILE --salvage", 2, "--salvage requires a stopped server: set --data-dir"},
		{"snapshot save FILE --kubeconfig a --data-dir b", 2, "exclude each other"},
		{"snapshot save FILE --kubeconfig=", 2, "--kubeconfig must not be empty"},
		{"snapshot save FILE --data-dir=", 2, "--data-dir must not be empty"},
		{"snapshot save FILE --encryption-provider-config f", 2, "--encryption-provider-config requires --data-dir"},
		{"snapshot save FILE", 1, "no server found: " + path("kapok/kubeconfig") + " does not exist. Start a server with kapok up"},
		{"snapshot save FILE --kubeconfig " + path("not-a-kubeconfig"), 1, "kubeconfig " + path("not-a-kubeconfig")},
		{"snapshot save FILE --kubeconfig " + kubeconfigOf(t, "http://127.0.0.1:1"), 1, "is the server running?"},
		{"snapshot save FILE --data-dir " + path("nowhere"), 1, path("nowhere") + " does not exist: want the data directory of kapok up"},
		{"snapshot save FILE --data-dir " + path("nowhere") + " --salvage", 1, path("nowhere") + " does not exist: want the data directory of kapok up"},
		{"snapshot save FILE --data-dir " + occupied + " --encryption-provider-config " + path("not-encryption"), 1, "not-encryption"},
		{"snapshot save " + base + " --data-dir " + occupied, 1, "not a regular file"},
		{"snapshot save " + path("no/backup") + " --data-dir " + occupied, 1, path("no") + " does not exist"},
		{"snapshot restore FILE", 2, "--data-dir is required: set the directory to restore to"},
		{"snapshot restore --data-dir x", 2, "FILE is missing: run kapok snapshot restore FILE --data-dir DIR"},
		{"snapshot restore FILE --data-dir x --bump-revision -1", 2, "--bump-revision -1 must not be negative"},
		{"snapshot restore FILE --data-dir x --bump-revision many", 2, "many"},
		{"snapshot restore FILE --data-dir x --encryption-provider-config=", 2, "--encryption-provider-config must not be empty"},
		{"snapshot restore " + path("good") + " --data-dir " + path("new") + " --bump-revision 9223372036854775807", 1, "--bump-revision 9223372036854775807 is too large"},
		{"snapshot restore " + path("good") + " --data-dir " + path("new") + " --encryption-provider-config " + path("not-encryption"), 1, "not-encryption"},
		{"snapshot restore " + path("missing") + " --data-dir " + path("new"), 1, path("missing") + " does not exist"},
		{"snapshot restore " + path("cut") + " --data-dir " + path("new"), 1, "snapshot is cut off"},
		{"snapshot restore " + path("flipped") + " --data-dir " + path("new"), 1, "checksum does not match"},
		{"snapshot restore " + path("text") + " --data-dir " + path("new"), 1, "not a snapshot of Kapok"},
		{"snapshot restore " + path("empty") + " --data-dir " + path("new"), 1, "snapshot is cut off"},
		{"snapshot restore " + path("newer") + " --data-dir " + path("new"), 1, "snapshot of a newer format"},
		{"snapshot restore " + path("good") + " --data-dir " + occupied, 1, occupied + " already contains a store"},
		{"snapshot restore " + path("good") + " --data-dir " + path("text"), 1, "is a file: want a directory"},
		{"snapshot inspect", 2, "FILE is missing: run kapok snapshot inspect FILE"},
		{"snapshot inspect " + path("good") + " -o yaml", 2, "want json or text"},
		{"snapshot inspect " + path("cut"), 1, path("cut") + ": snapshot is cut off"},
		{"snapshot inspect " + path("missing"), 1, path("missing") + " does not exist"},
		{"snapshot inspect " + base, 1, "is a directory"},
		{"doctor now", 2, `unexpected argument`},
		{"doctor -o yaml", 2, "want json or text"},
		{"doctor --kubeconfig a --data-dir b", 2, "exclude each other"},
		{"doctor --encryption-provider-config f", 2, "--encryption-provider-config requires --data-dir"},
		{"doctor --data-dir " + path("nowhere"), 1, path("nowhere") + " does not exist: want the data directory of kapok up"},
		{"doctor", 1, "no server found: " + path("kapok/kubeconfig") + " does not exist"},
	} {
		file := path("never")
		args := strings.Fields(strings.Replace(tc.args, "FILE", file, 1))
		code, stdout, stderr := kapokRun(args...)
		if code != tc.code || !strings.Contains(stderr, tc.want) || !strings.HasPrefix(stderr, "kapok: ") || stdout != "" {
			t.Errorf("kapok %s: exit code %d, want %d, with %s\n%s%s", tc.args, code, tc.code, tc.want, stdout, stderr)
		}
		for _, name := range []string{"never", "new"} {
			if exists(path(name)) {
				t.Errorf("kapok %s leaves %s behind", tc.args, name)
			}
		}
	}
	if code, stdout, _ := kapokRun("snapshot"); code != 0 || !strings.Contains(stdout, "restore") {
		t.Errorf("kapok snapshot: exit code %d\n%s", code, stdout)
	}
}

// A directory in use is left to whom it belongs.
func TestSnapshotOfLocked(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	file := filepath.Join(t.TempDir(), "backup")
	must(t, "snapshot", "save", file, "--kubeconfig", s.kubeconfig)
	reach := "kapok is running on data directory " + s.dir + ": use --kubeconfig " + s.kubeconfig + " instead of --data-dir, or stop the server\n"
	for _, tc := range []struct{ args, want string }{
		{"snapshot save " + file + ".2 --data-dir " + s.dir, reach},
		{"snapshot save " + file + ".2 --salvage --data-dir " + s.dir, reach},
		{"doctor --data-dir " + s.dir, reach},
		{"snapshot restore " + file + " --data-dir " + s.dir, "kapok is running on data directory " + s.dir + ": restore to another directory\n"},
	} {
		code, stdout, stderr := kapokRun(strings.Fields(tc.args)...)
		if code != 1 || stderr != "kapok: "+tc.want {
			t.Errorf("kapok %s: exit code %d\n%s%s", tc.args, code, stdout, stderr)
		}
	}
	elsewhere := launch(t, "up", "--listen=127.0.0.1:0", "--data-dir", s.dir+"2", "--controllers=", "--kubeconfig", file+".kubeconfig")
	elsewhere.ready(t, file+".kubeconfig")
	if code, _, stderr := kapokRun("doctor", "--data-dir", s.dir+"2"); code != 1 || !strings.Contains(stderr, "--kubeconfig FILE, the file that its kapok up wrote, instead") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the running server suffered: %v", err)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB", 5 << 50: "5120.0 TiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
