package audit

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// stamp is the time in the name of a rotated file, in UTC.
const stamp = "2006-01-02T15-04-05.000"

// file is a sink of lines of JSON. It rotates itself while it writes.
type file struct {
	options Options
	out     io.Writer
	f       *os.File // nil for the standard output
	size    int64
	buf     bytes.Buffer
}

// openFile expects options with defaults and a LogPath.
func openFile(o Options) (*file, error) {
	w := &file{options: o}
	if o.LogPath == "-" {
		w.out = os.Stdout
		return w, nil
	}
	return w, w.open()
}

func (w *file) open() error {
	if err := os.MkdirAll(filepath.Dir(w.options.LogPath), 0o700); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	f, err := os.OpenFile(w.options.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("audit log: %w", err)
	}
	w.f, w.out, w.size = f, f, info.Size()
	return nil
}

func (*file) name() string                { return "log" }
func (*file) batch() (int, time.Duration) { return 64, 0 }
func (w *file) limit() limit              { return w.options.logLimit() }

func (w *file) write(_ context.Context, events []*auditv1.Event) error {
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		w.buf.Write(line)
		w.buf.WriteByte('\n')
	}
	defer w.buf.Reset()
	if err := w.rotate(int64(w.buf.Len())); err != nil {
		return err
	}
	n, err := w.out.Write(w.buf.Bytes())
	w.size += int64(n)
	return err
}

// rotate makes way for a number of bytes more.
func (w *file) rotate(more int64) error {
	if w.options.LogPath == "-" {
		return nil
	}
	if w.f == nil { // it could not be opened the last time
		return w.open()
	}
	if w.size == 0 || w.size+more <= int64(w.options.LogMaxSize)<<20 {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	if err == nil {
		err = os.Rename(w.options.LogPath, w.rotated(time.Now()))
	}
	if err := errors.Join(err, w.open()); err != nil {
		return err
	}
	return w.tidy(time.Now())
}

// rotated is the name of a file that is rotated at a time.
func (w *file) rotated(at time.Time) string {
	prefix, suffix := w.parts()
	for {
		name := filepath.Join(filepath.Dir(w.options.LogPath), prefix+at.UTC().Format(stamp)+suffix)
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			return name
		}
		at = at.Add(time.Millisecond)
	}
}

func (w *file) parts() (prefix, suffix string) {
	base := filepath.Base(w.options.LogPath)
	suffix = filepath.Ext(base)
	return strings.TrimSuffix(base, suffix) + "-", suffix
}

// tidy removes files that are too old or too many, and compresses the rest.
func (w *file) tidy(now time.Time) error {
	dir := filepath.Dir(w.options.LogPath)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type backup struct {
		path string
		at   time.Time
	}
	var backups []backup
	prefix, suffix := w.parts()
	for _, e := range entries {
		middle, ours := strings.CutPrefix(e.Name(), prefix)
		middle, ok := strings.CutSuffix(strings.TrimSuffix(middle, ".gz"), suffix)
		at, err := time.Parse(stamp, middle)
		if ours && ok && err == nil {
			backups = append(backups, backup{filepath.Join(dir, e.Name()), at})
		}
	}
	slices.SortFunc(backups, func(a, b backup) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.path, b.path)) })
	var errs []error
	for i, b := range backups {
		switch {
		case w.options.LogMaxBackups > 0 && i >= w.options.LogMaxBackups,
			w.options.LogMaxAge > 0 && now.Sub(b.at) > time.Duration(w.options.LogMaxAge)*24*time.Hour:
			errs = append(errs, os.Remove(b.path))
		case w.options.LogCompress && !strings.HasSuffix(b.path, ".gz"):
			errs = append(errs, compress(b.path))
		}
	}
	return errors.Join(errs...)
}

// compress replaces a file by a compressed one. It is not there in part under the name that it
// gets.
func compress(path string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			out.Close()
			os.Remove(out.Name())
		}
	}()
	z := gzip.NewWriter(out)
	if _, err := io.Copy(z, in); err != nil {
		return err
	}
	if err := errors.Join(z.Close(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), path+".gz"); err != nil {
		return err
	}
	return os.Remove(path)
}

func (w *file) close() error {
	if w.f == nil {
		return nil
	}
	return w.f.Close()
}
