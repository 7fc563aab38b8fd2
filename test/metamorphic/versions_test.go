package metamorphic

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Data directories of older programs are in testdata, each with what is known of its content. They
// were made with
//
//	go test -run TestRecord -record NAME -binary KAPOK [-providers aescbc/key] [-flags --service-accounts=false] [-kill]
//
// where KAPOK was built from the commit that NAME ends with.
var (
	record    = flag.String("record", "", "name of the data directory to be made")
	binary    = flag.String("binary", "", "program that makes it")
	providers = flag.String("providers", "", "of its encryption, separated by commas; the first one writes")
	flags     = flag.String("flags", "", "of the program, separated by spaces")
	kill      = flag.Bool("kill", false, "end the program with SIGKILL")
)

// fixture describes a data directory.
type fixture struct {
	Commits   []savedCommit
	Revisions []int64
	UIDs      map[string]int
	Providers []string `json:",omitempty"`
}

type savedCommit struct {
	Kind, Namespace, Name string
	Told                  bool
	Object                *savedObject `json:",omitempty"` // nil deletes
}

type savedObject struct {
	Created    int
	Generation int               `json:",omitempty"`
	App        string            `json:",omitempty"`
	Finalizers []string          `json:",omitempty"`
	Deleting   bool              `json:",omitempty"`
	Values     map[string]string `json:",omitempty"`
	Phase      string            `json:",omitempty"`
}

func save(m *model, c *client, providers []string) *fixture {
	f := &fixture{Revisions: c.revisions, UIDs: c.uids, Providers: providers}
	for i, c := range m.commits {
		s := savedCommit{Kind: string(c.key.kind), Namespace: c.key.namespace, Name: c.key.name, Told: m.told[i+1]}
		if o := c.after; o != nil {
			s.Object = &savedObject{o.created, o.generation, o.app, o.finalizers, o.deleting, o.values, o.phase}
		}
		f.Commits = append(f.Commits, s)
	}
	return f
}

func (f *fixture) load() (*model, *client) {
	m, c := newModel(), newClient()
	for _, s := range f.Commits {
		var after *object
		if o := s.Object; o != nil {
			after = &object{created: o.Created, generation: o.Generation, app: o.App, finalizers: o.Finalizers, deleting: o.Deleting, values: o.Values, phase: o.Phase}
			if after.values == nil {
				after.values = map[string]string{}
			}
		}
		m.commit(key{kind(s.Kind), s.Namespace, s.Name}, after, s.Told)
	}
	c.revisions, c.uids = f.Revisions, f.UIDs
	for version, rv := range f.Revisions {
		if rv != 0 {
			c.versions[rv] = version
		}
	}
	return m, c
}

// What an older program has written, and the snapshot that it has made, can be read as it was, and
// gone on with.
func TestOlderDataDirectories(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/format2-*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatal("there are none", err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		t.Run(name, func(t *testing.T) {
			s, m := unpack(t, archive)
			token := filepath.Join(s.data, "pki", "token")
			before, err := os.ReadFile(token)
			if err == nil {
				err = s.start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if after, err := os.ReadFile(token); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the token was %q, and is %q, %v", before, after, err)
			}
			steps, heads := m.everything()
			goOn(t, s, m, steps, heads)
		})
		t.Run(name+" snapshot", func(t *testing.T) {
			s, m := unpack(t, archive)
			saved, err := os.ReadFile(filepath.Join(s.dir, "snapshot"))
			if errors.Is(err, fs.ErrNotExist) {
				t.Skip("the program made no snapshots")
			}
			if err == nil {
				err = s.restoreFrom(t.Context(), saved, m.head())
			}
			if err != nil {
				t.Fatal(err)
			}
			m.compacted = m.head()
			goOn(t, s, m, nil, nil)
		})
	}
}

// goOn takes steps, and then those of random operations.
func goOn(t *testing.T, s *server, m *model, steps []*step, heads []int) {
	more, after := m.steps(append(operations(seeds.Of(t), 60), operation{examine, 0}))
	steps, heads = append(steps, more...), append(heads, after...)
	f, _, err := s.takeAll(t.Context(), steps, heads)
	if f != nil {
		for _, step := range steps[:f.at+1] {
			t.Log(step)
		}
		t.Error(f)
	}
	if err != nil {
		t.Error(err)
	}
}

// everything returns steps that read all there is and was.
func (m *model) everything() (steps []*step, heads []int) {
	for _, k := range kinds {
		for _, namespace := range namespaces {
			for version := 0; version <= m.head(); version += 5 {
				s := &step{verb: list, at: key{kind: k, namespace: namespace}, ref: m.known(version), exact: true}
				s.past = s.ref
				keys, objects := m.selected(s.ref, k, namespace, "")
				s.want = answer{code: http.StatusOK, version: m.version(s.ref), lines: lines(keys, objects)}
				steps, heads = append(steps, s), append(heads, m.head())
			}
			s := &step{verb: watch, at: key{kind: k, namespace: namespace}}
			heads = append(heads, m.head())
			m.follow(rand.New(rand.NewPCG(0, 0)), s)
			steps = append(steps, s)
		}
	}
	return steps, heads
}

// A format that was never released is refused, and its files are left alone.
func TestFormatBeforeTheFirst(t *testing.T) {
	s, _ := unpack(t, "testdata/format1-398ebdd.tar.gz")
	before, err := files(s.data)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.start(t.Context()); err == nil || !strings.Contains(err.Error(), "HEAD is missing") {
		t.Errorf("started with %v", err)
	}
	if after, err := files(s.data); err != nil || !slices.Equal(before, after) {
		t.Errorf("the files were %v, and are %v, %v", before, after, err)
	}
}

// unpack returns a server on a data directory from an archive, and what it must hold.
func unpack(t *testing.T, archive string) (*server, *model) {
	t.Helper()
	dir := t.TempDir()
	if err := extract(archive, dir); err != nil {
		t.Fatal(err)
	}
	var known fixture
	text, err := os.ReadFile(filepath.Join(dir, "known.json"))
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(Configuration{Name: archive, Files: true, Options: kapok.Options{Listen: "127.0.0.1:0"}}, dir, 0)
	m, c := known.load()
	s.data, s.client, s.providers, s.made = filepath.Join(dir, "data"), c, known.Providers, 1000
	t.Cleanup(func() { s.stop() })
	return s, m
}

func extract(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	unzip, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(unzip); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			return err
		}
	}
}

// TestRecord makes a data directory with another program.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("-record makes one")
	}
	dir := t.TempDir()
	s := newServer(Configuration{Name: *record, Files: true}, dir, 0)
	s.data = filepath.Join(dir, "data")
	args := append([]string{"up", "--listen=127.0.0.1:0", "--data-dir", s.data}, strings.Fields(*flags)...)
	if *providers != "" {
		s.providers = strings.Split(*providers, ",")
		if err := s.configure(); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--encryption-provider-config", s.options.EncryptionConfig)
	}
	program := exec.Command(*binary, args...)
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer program.Process.Kill()
	kubeconfig := filepath.Join(s.data, "kubeconfig")
	for tick := time.Tick(time.Millisecond); ; <-tick {
		if _, err := os.Stat(kubeconfig); err == nil {
			break
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	s.client.connect(&rest.Config{Host: config.Host, Transport: transport})
	if err := s.found(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, n := newModel(), 0
	for _, op := range operations(1, 400) {
		switch op.verb {
		case create, update, merge, jsonPatch, status, remove, collection:
			step := m.next(op)
			got, _, err := s.client.do(t.Context(), step)
			if err != nil || got.String() != step.want.String() {
				t.Fatalf("%s: %v %s", step, err, got)
			}
			n++
		}
		if n == 80 {
			break
		}
	}
	saved := snapshotOf(t.Context(), s.client)
	if *kill {
		program.Process.Kill()
	} else {
		program.Process.Signal(os.Interrupt)
	}
	program.Wait()
	if err := pack(filepath.Join("testdata", *record+".tar.gz"), s.data, saved, save(m, s.client, s.providers)); err != nil {
		t.Fatal(err)
	}
}

// snapshotOf returns nil where the server makes none.
func snapshotOf(ctx context.Context, c *client) []byte {
	resp, err := c.send(ctx, http.MethodGet, "/kapok/v1/snapshot", jsonType, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	defer resp.Body.Close()
	saved, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil
	}
	return saved
}

func pack(archive, data string, saved []byte, known *fixture) error {
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zip)
	add := func(name string, content []byte) error {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))})
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	}
	text, err := json.Marshal(known)
	if err == nil {
		err = add("known.json", text)
	}
	if err == nil && saved != nil {
		err = add("snapshot", saved)
	}
	all, listed := files(data)
	for _, f := range all {
		content, read := os.ReadFile(filepath.Join(data, f.name))
		err = errors.Join(err, read, add("data/"+filepath.ToSlash(f.name), content))
	}
	if err = errors.Join(err, listed, w.Close(), zip.Close()); err != nil {
		return err
	}
	return os.WriteFile(archive, b.Bytes(), 0o644)
}
