package metamorphic

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/journal/encryption"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	builtin "github.com/kapok-dev/kapok/internal/kinds"
	stored "github.com/kapok-dev/kapok/internal/object"
	kapokserver "github.com/kapok-dev/kapok/internal/server"
	"github.com/kapok-dev/kapok/internal/snapshot"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Configuration is a way to run a server, and to restart it. The responses of all must be equal.
type Configuration struct {
	// Name identifies it in reports.
	Name string
	// Options are shared by all servers of the configuration. Without Store, the objects are in
	// memory that outlives servers, unless Files is set.
	Options kapok.Options
	// Files keeps the objects in a data directory. Options of the directory and of encryption are
	// random for each server.
	Files bool
	// Lossy puts the journal of the data directory on a disk in memory, which loses unsynced data
	// in a crash.
	Lossy bool
	// Forgetful allows history to end before the last compaction: requests for anything but the
	// newest state may return 410.
	Forgetful bool
	// Lie changes the responses to requests, for tests of this package.
	Lie func(http.RoundTripper) http.RoundTripper
}

// A server runs the servers of a configuration one after the other, on one store.
type server struct {
	Configuration
	dir    string // for directories and files
	random *rand.Rand
	store  *memory.Store
	data   string // the data directory
	made   int    // number of files and directories
	disk   *vfs.MemFS
	prefix string // in an etcd

	providers []string // of encryption, the newest first
	options   kapok.Options
	journal   pebble.Options
	running   *kapok.Server
	client    *client
	gone      map[int]bool // versions at which history may begin
	lost      map[int]bool // lists in pages that cannot continue, as their history is gone
}

func newServer(c Configuration, dir string, seed uint64) *server {
	s := &server{
		Configuration: c, prefix: crand.Text(), dir: dir, random: rand.New(rand.NewPCG(seed, sum(c.Name))), store: memory.NewStore(),
		client: newClient(), gone: map[int]bool{}, lost: map[int]bool{},
	}
	if c.Lossy {
		s.disk = vfs.NewCrashableMem()
	}
	return s
}

// path returns the path of a new file or directory.
func (s *server) path(name string) string {
	s.made++
	return filepath.Join(s.dir, fmt.Sprintf("%s-%d", name, s.made))
}

// start starts the next server, with random options.
func (s *server) start(ctx context.Context) error {
	if err := s.choose(); err != nil {
		return err
	}
	running, err := kapokserver.StartOn(ctx, kapokserver.Options(s.options), kapokserver.Journals{Memory: s.store, Pebble: s.journal})
	if err != nil {
		return fmt.Errorf("start with %s: %w", s.describe(), err)
	}
	s.running = (*kapok.Server)(running)
	config := s.running.Config()
	if s.Lie != nil {
		config.Transport = s.Lie(config.Transport)
	}
	s.client.connect(config)
	s.client.rewrites = s.client.rewrites || s.options.EncryptionConfig != ""
	return nil
}

// choose returns the options of the next server.
func (s *server) choose() error {
	s.options = s.Options
	s.options.Accounts.None = true // accounts of namespaces would appear among the objects of the test
	s.options.KeepGarbage = s.random.IntN(2) == 0
	s.options.RetiredAPIs, s.options.V1beta1CRDs = s.random.IntN(2) == 0, s.random.IntN(2) == 0
	s.options.Logger = slog.New(slog.DiscardHandler)
	if s.options.Store == "" && !s.Files { // this limit also bounds the history
		return nil
	}
	s.options.HistoryMemory = []int{0, 1, 2 << 10, 64 << 10}[s.random.IntN(4)]
	if s.options.Store != "" {
		s.options.Etcd.Prefix = s.prefix
	}
	if !s.Files {
		return s.encrypt()
	}
	if s.data == "" {
		s.data = s.path("data")
	}
	s.options.DataDir = s.data
	s.options.UnsafeNoFsync = s.Options.UnsafeNoFsync || !s.Lossy && s.random.IntN(3) > 0
	s.journal = pebble.Options{
		MemTableBytes: []uint64{0, 32 << 10, 128 << 10}[s.random.IntN(3)], // with few bytes, records are flushed soon
		CacheBytes:    []int64{0, 1}[s.random.IntN(2)],
		ReserveBytes:  []int64{0, -1}[min(1, s.random.IntN(4))], // it uses space that other tests need
	}
	if s.Lossy {
		s.journal.FS = s.disk
		if err := s.makeDirectory(filepath.Join(s.data, "journal")); err != nil {
			return err
		}
	}
	if s.Forgetful {
		s.options.HistoryAge = time.Duration(1+s.random.IntN(50)) * time.Millisecond
	}
	return s.encrypt()
}

// makeDirectory creates a directory on the disk in memory, and makes its path durable. On the
// machine's disk, the journal does that.
func (s *server) makeDirectory(dir string) error {
	if err := s.disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		d, err := s.disk.OpenDir(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}

// encrypt may enable encryption, or change its key or provider. Existing data stays readable.
func (s *server) encrypt() error {
	if s.random.IntN(2) == 0 {
		provider := []string{"identity", "aescbc", "aesgcm", "secretbox"}[s.random.IntN(4)]
		if provider != "identity" {
			provider += fmt.Sprintf("/key%d", s.made)
		} else if len(s.providers) == 0 {
			return nil
		}
		s.providers = slices.DeleteFunc(s.providers, func(p string) bool { return p == provider })
		if len(s.providers) == 0 {
			s.providers = []string{"identity"}
		}
		s.providers = slices.Insert(s.providers, 0, provider)
	}
	if len(s.providers) == 0 {
		return nil
	}
	return s.configure()
}

// configure writes the configuration of encryption.
func (s *server) configure() error {
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" +
		"- resources: [secrets, configmaps, widgets.test.kapok.dev]\n  providers:\n"
	for _, p := range s.providers {
		name, key, ok := strings.Cut(p, "/")
		if !ok {
			text += "  - identity: {}\n"
			continue
		}
		sum := sha256.Sum256([]byte(key))
		text += fmt.Sprintf("  - %s: {keys: [{name: %s, secret: %s}]}\n", name, key, base64.StdEncoding.EncodeToString(sum[:]))
	}
	s.options.EncryptionConfig = s.path("encryption.yaml")
	return os.WriteFile(s.options.EncryptionConfig, []byte(text), 0o600)
}

// describe returns the random options of the running server.
func (s *server) describe() string {
	text := fmt.Sprintf("history in memory %d bytes", s.options.HistoryMemory)
	if !s.options.KeepGarbage {
		text += ", housekeeping"
	}
	if s.options.HistoryAge != 0 {
		text += fmt.Sprintf(" and for %v", s.options.HistoryAge)
	}
	if s.options.UnsafeNoFsync {
		text += ", no fsync"
	}
	if s.journal.MemTableBytes != 0 {
		text += fmt.Sprintf(", tables of %d bytes", s.journal.MemTableBytes)
	}
	if len(s.providers) > 0 {
		text += fmt.Sprintf(", encryption %v", s.providers)
	}
	return text
}

func (s *server) stop() error {
	if s.running == nil {
		return nil
	}
	err := s.running.Stop()
	s.running = nil
	return err
}

// found creates the objects that the steps need in an empty store.
func (s *server) found(ctx context.Context) error {
	bodies := map[string]any{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": rawJSON(definition)}
	for _, namespace := range namespaces {
		bodies["/api/v1/namespaces?of="+namespace] = rawJSON(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + namespace + `"}}`)
	}
	for path, body := range bodies {
		code, _, raw, err := s.client.ask(ctx, http.MethodPost, path, jsonType, body)
		if err != nil || code != http.StatusCreated {
			return errors.Join(err, fmt.Errorf("POST %s: %d %s", path, code, raw))
		}
	}
	// A kind is served shortly after its definition was created.
	for served := false; !served; {
		var err error
		if served, err = s.established(ctx); err != nil {
			return fmt.Errorf("wait until the kind is served: %w", err)
		}
	}
	for {
		code, w, _, err := s.client.ask(ctx, http.MethodGet, widgets.path(""), jsonType, nil)
		if err != nil {
			return err
		}
		if code == http.StatusOK {
			return s.client.learn(0, &w)
		}
	}
}

// established waits until the definition is established. It returns false if the watch ends before,
// as a server whose history is short may end it at any time.
func (s *server) established(ctx context.Context) (bool, error) {
	resp, err := s.client.send(ctx, http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?watch=true", jsonType, nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	for buf, all := make([]byte, 4096), []byte(nil); ; {
		n, err := resp.Body.Read(buf)
		all = append(all, buf[:n]...)
		if bytes.Contains(all, []byte(`"NamesAccepted"`)) && bytes.Contains(all, []byte(`"Established"`)) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// take runs a step.
func (s *server) take(ctx context.Context, step *step, head int) (a answer, details string, err error) {
	switch step.verb {
	case reopen:
		return a, "", s.restart(ctx, s.stop)
	case crash:
		return a, "", s.restart(ctx, s.crash)
	case compact:
		m, _, err := s.client.do(ctx, step.marker)
		a.note = m.String()
		if err := errors.Join(err, s.running.Compact(ctx)); err != nil {
			return a, "", err
		}
		// The server itself may write after the marker: Leases of replicas, aggregated ClusterRoles.
		_, w, _, err := s.client.ask(ctx, http.MethodGet, "/api/v1/namespaces", jsonType, nil)
		s.gone[step.marker.learn] = w.Metadata.ResourceVersion != s.client.revision(step.marker.learn)
		return a, "", err
	case examine:
		return a, "", s.examine(ctx)
	case restore:
		return a, "", s.restore(ctx, head)
	}
	return s.client.do(ctx, step)
}

func (s *server) restart(ctx context.Context, end func() error) error {
	if err := end(); err != nil {
		return err
	}
	return s.start(ctx)
}

// crash copies the data directory while the server runs, which gives the state after a crash of the
// process.
func (s *server) crash() error {
	if !s.Files {
		return s.stop()
	}
	if s.Lossy {
		left := s.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: s.random.IntN(101), RNG: s.random})
		err := s.stop()
		s.disk = left
		return err
	}
	left := s.path("data")
	for {
		before, err := files(s.data)
		if err == nil {
			err = copyFiles(s.data, left, before)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// If files are created or removed meanwhile, the copy would be an impossible state.
		if after, again := files(s.data); err == nil && again == nil && slices.Equal(before, after) {
			break
		}
		if err := os.RemoveAll(left); err != nil {
			return err
		}
	}
	err := errors.Join(s.stop(), os.RemoveAll(s.data))
	s.data = left
	return err
}

// aFile is a file in a data directory, and the time of its last change.
type aFile struct {
	name string
	size int64
	time time.Time
}

// files lists the files of its data directory that a server reads.
func files(dir string) (all []aFile, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" || strings.HasPrefix(d.Name(), "RESERVE") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		all = append(all, aFile{name, info.Size(), info.ModTime()})
		return err
	})
	return all, err
}

func copyFiles(from, to string, all []aFile) error {
	for _, f := range all {
		data, err := os.ReadFile(filepath.Join(from, f.name))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, f.name)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, f.name), data, 0o600); err != nil {
			return err
		}
	}
	return os.Chmod(to, 0o700)
}

// examine checks the server's store with its doctor.
func (s *server) examine(ctx context.Context) error {
	resp, err := s.client.send(ctx, http.MethodGet, "/kapok/v1/doctor", jsonType, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.Contains(raw, []byte(`"problems":[]`)) && !bytes.Contains(raw, []byte(`"problems": []`)) {
		err = fmt.Errorf("doctor: %d %s", resp.StatusCode, raw)
	}
	return err
}

// restore takes a snapshot, and continues with a store that is restored from it. A store that is
// not a directory is compacted, which looks the same to clients.
func (s *server) restore(ctx context.Context, head int) error {
	resp, err := s.client.send(ctx, http.MethodGet, "/kapok/v1/snapshot", jsonType, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	saved, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return s.restoreFrom(ctx, saved, head)
}

func (s *server) restoreFrom(ctx context.Context, saved []byte, head int) error {
	file, err := snapshot.Open(bytes.NewReader(saved))
	if err != nil {
		return err
	}
	s.gone[head] = true // with a gap between the old resourceVersions and the new ones, it is gone too
	if !s.Files {
		for _, err := range file.Objects() {
			if err != nil {
				return err
			}
		}
		return s.running.Compact(ctx)
	}
	if err := errors.Join(s.stop(), os.RemoveAll(s.data)); err != nil {
		return err
	}
	// The first options may have other keys than those with which the old store was written.
	s.data, s.providers = s.path("data"), nil
	if err := s.choose(); err != nil {
		return err
	}
	options := s.journal
	options.Dir, options.Logger = filepath.Join(s.data, "journal"), s.options.Logger
	if s.options.EncryptionConfig != "" {
		config, err := encryption.Load(ctx, s.options.EncryptionConfig, builtin.Paths(), options.Logger)
		if err != nil {
			return err
		}
		defer config.Close()
		options.Sealer = config
	}
	bump := stored.Revision(s.random.IntN(3) * s.random.IntN(1_000_000))
	if err := pebble.Import(ctx, options, file.Header().Revision+bump, file.Objects()); err != nil {
		return err
	}
	return s.start(ctx)
}

func sum(text string) uint64 {
	h := fnv.New64()
	h.Write([]byte(text))
	return h.Sum64()
}
