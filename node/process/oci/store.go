// Package oci provides the files of OCI images to nodes of processes: from archives and registries,
// unpacked into directories.
//
//	store, err := oci.Open(oci.Options{Dir: "/home/me/.local/share/kapok/images"})
//	node := &process.Node{Options: process.Options{Images: map[string]string{"web": "archive://./web.tar"}, Store: store, ...}}
//
// An archive is a file of docker save, ko or buildpacks, with or without gzip, an OCI layout in a
// tar file, or the directory of an OCI layout. A registry is read with the credentials of the pod's
// imagePullSecrets, and then with those of the user's configuration of Docker.
//
// # Files
//
//	images/HEX/root        the root directory of an image, shared by its containers; HEX is the SHA-256 of its configuration
//	images/HEX/image.json  the configuration; its time is that of the last use
//	references/HEX         the image of a reference; HEX is the SHA-256 of the reference
//	tmp                    what is being unpacked
//
// The configuration has the digests of all layers, which are compared, so that its own digest names
// all of the content. An image appears in one step, after it has been written to the disk.
// Containers without a root directory of their own can change the files, because they run as the
// same user.
//
// # Limits
//
// Layers are unpacked by package rootfs, which never leaves the directory. Options.MaxBytes and
// MaxFiles limit an image. Collect removes images that no container uses.
//
// A Store has one lock, which is not held during reads of archives and registries, and starts no
// goroutine.
package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/process"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
)

// Options configure a Store. Only Dir is required.
type Options struct {
	// Dir is the directory of the Store. One process uses it at a time: the first Pull locks it.
	Dir string
	// MaxBytes limits the files of an image, and its layers without compression. Default 16 GiB.
	MaxBytes int64
	// MaxFiles limits the number of files of an image. Default 1,000,000.
	MaxFiles int
	// Unused is the time after which an image that no container uses is removed. Default 7 days.
	// Negative: never.
	Unused time.Duration
	// High and Low are percentages of the file system: when more than High is in use, images that no
	// container uses are removed, those that were not used for the longest time first, until at most
	// Low is. Defaults 85 and 80, those of the kubelet.
	High, Low int
	// Transport sends requests to registries. Default: http.DefaultTransport.
	Transport http.RoundTripper
}

// A Store has images. Make one with Open. It is safe for concurrent use, and implements
// process.ImageStore.
type Store struct {
	options Options
	root    *os.Root
	usage   func(dir string) (percent int, err error) // of the file system

	mu    sync.Mutex
	held  *os.File         // the lock of the directory, nil before the first use
	locks map[string]*lock // by source
}

// A lock is held while an image is pulled.
type lock struct {
	held  chan struct{} // has an element while it is held
	users int
}

// Open returns the Store of a directory, which is made if it does not exist.
func Open(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("option Dir is empty: want a directory")
	}
	if o.MaxBytes < 0 || o.MaxFiles < 0 || o.High < 0 || o.Low < 0 || o.High > 100 || o.Low > 100 {
		return nil, errors.New("options MaxBytes and MaxFiles must not be negative, and High and Low must be percentages")
	}
	set(&o.MaxBytes, 16<<30)
	set(&o.MaxFiles, 1_000_000)
	set(&o.Unused, 7*24*time.Hour)
	set(&o.High, 85)
	set(&o.Low, 80)
	if o.Low > o.High {
		return nil, fmt.Errorf("option Low is %d: must not be higher than High, %d", o.Low, o.High)
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	s := &Store{options: o, usage: usage, locks: map[string]*lock{}}
	if s.root, err = os.OpenRoot(o.Dir); err != nil {
		return nil, err
	}
	return s, nil
}

// begin locks the directory at the first use, and removes what a crash has left behind.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		return nil
	}
	held, err := s.root.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := lockFile(held); err != nil {
		return errors.Join(fmt.Errorf("%s is in use by another process: %w", s.options.Dir, err), held.Close())
	}
	if err := beneath.RemoveAll(s.root, "tmp"); err != nil {
		return errors.Join(err, held.Close())
	}
	for _, name := range []string{"images", "references", "tmp"} {
		if err := s.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return errors.Join(err, held.Close())
		}
	}
	s.held = held
	return nil
}

func set[T comparable](field *T, standard T) {
	var zero T
	if *field == zero {
		*field = standard
	}
}

// Close releases the directory. Images remain.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.root.Close()
	if s.held != nil {
		err = errors.Join(err, s.held.Close())
	}
	return err
}

// Pull implements process.ImageStore.
func (s *Store) Pull(ctx context.Context, r process.ImageRequest) (*process.Image, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx, r.Source())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if r.Policy == corev1.PullNever || r.Policy == corev1.PullIfNotPresent && r.Archive == "" {
		image, err := s.present(r.Source())
		if err != nil || image != nil {
			return image, err
		}
		if r.Policy == corev1.PullNever {
			return nil, process.ErrNotPresent
		}
	}
	if r.Pulling != nil {
		r.Pulling()
	}
	var image *process.Image
	if r.Archive != "" {
		image, err = s.fromArchive(ctx, r.Archive)
	} else {
		image, err = s.fromRegistry(ctx, &r)
	}
	if err != nil {
		return nil, err
	}
	return image, s.note(r.Source(), image)
}

// lock locks a source, and returns the function that unlocks it.
func (s *Store) lock(ctx context.Context, source string) (unlock func(), err error) {
	s.mu.Lock()
	l := s.locks[source]
	if l == nil {
		l = &lock{held: make(chan struct{}, 1)}
		s.locks[source] = l
	}
	l.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.locks, source)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// A reference is the content of a file of references.
type reference struct{ Source, ID, Reference string }

func referenceFile(source string) string {
	sum := sha256.Sum256([]byte(source))
	return filepath.Join("references", hex.EncodeToString(sum[:]))
}

// note notes the image of a source.
func (s *Store) note(source string, i *process.Image) error {
	data, err := json.Marshal(reference{source, i.ID, i.Reference})
	if err != nil {
		return err
	}
	return beneath.Replace(s.root, referenceFile(source), data, false)
}

// A record is the content of image.json.
type record struct {
	Size   int64 // of the files, in bytes
	Config v1.ConfigFile
}

// longestRecord is the maximum length of a file that is read, in bytes.
const longestRecord = 16 << 20

// present returns the image that a source had when it was read last; nil if there is none.
func (s *Store) present(source string) (*process.Image, error) {
	data, err := beneath.Read(s.root, referenceFile(source), longestRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r reference
	if err != nil || json.Unmarshal(data, &r) != nil || r.Source != source {
		return nil, err // a damaged file is that of no image
	}
	return s.known(r.ID, r.Reference)
}

// known returns an image that is in the Store, and notes that it is used; nil if it is not there.
func (s *Store) known(id, reference string) (*process.Image, error) {
	dir, ok := dirOf(id)
	if !ok {
		return nil, nil
	}
	s.mu.Lock() // Collect does not remove it in between
	defer s.mu.Unlock()
	now := time.Now()
	file := filepath.Join(dir, "image.json")
	if err := s.root.Chtimes(file, now, now); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	data, err := beneath.Read(s.root, file, longestRecord)
	if err != nil {
		return nil, err
	}
	var m record
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("the image %s is damaged: %w", id, err)
	}
	c := &m.Config
	return &process.Image{
		ID: id, Reference: reference, Root: filepath.Join(s.options.Dir, dir, "root"),
		Entrypoint: c.Config.Entrypoint, Cmd: c.Config.Cmd, Env: c.Config.Env, WorkingDir: c.Config.WorkingDir, User: c.Config.User,
		Size: m.Size,
	}, nil
}

// dirOf returns the directory of an image.
func dirOf(id string) (dir string, ok bool) {
	text, ok := strings.CutPrefix(id, "sha256:")
	if _, err := hex.DecodeString(text); !ok || err != nil || len(text) != 2*sha256.Size {
		return "", false
	}
	return filepath.Join("images", text), true
}
