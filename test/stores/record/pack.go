package main

import (
	"archive/tar"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
)

// reserve is the file that the server removes when its disk is full. It has 48 MiB and no data, and
// the server makes it again.
const reserve = "RESERVE"

// pack writes the files of a directory to an archive, and returns its size.
func pack(name, dir string) (size int64, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	zipped, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	w := tar.NewWriter(zipped)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == reserve {
			return err
		}
		return add(w, dir, path)
	})
	if err != nil {
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	if err := zipped.Close(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), f.Close()
}

// add writes one file, without owner and time.
func add(w *tar.Writer, dir, path string) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: filepath.ToSlash(name), Size: int64(len(content)), Mode: 0o600, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
