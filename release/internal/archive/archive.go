// Package archive writes archives whose bytes depend on the content of their files alone: files are
// sorted, belong to numeric owners, and have the time that the caller sets.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// File is a file or a directory of an archive.
type File struct {
	Name  string      // path with slashes, relative
	Mode  fs.FileMode // permissions; fs.ModeDir for a directory
	Owner int         // user and group; zip has none
	Data  []byte      // content, unless Path is set
	Path  string      // file on disk with the content
}

// Format writes the files to w as an archive; at is the time of each.
type Format func(w io.Writer, at time.Time, files []File) error

// Create writes an archive into a new file.
func Create(path string, format Format, at time.Time, files []File) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(format(f, at, files), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Gzip returns data compressed, without a name and a time in its header.
func Gzip(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := newGzip(&b)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// newGzip returns a writer whose header has no time: 0 stands for none, and the library writes
// another number for the zero time.
func newGzip(w io.Writer) (*gzip.Writer, error) {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	z.ModTime = time.Unix(0, 0)
	return z, nil
}

// TarGz is tar, compressed by gzip.
func TarGz(w io.Writer, at time.Time, files []File) error {
	z, err := newGzip(w)
	if err != nil {
		return err
	}
	if err := Tar(z, at, files); err != nil {
		return err
	}
	return z.Close()
}

// Tar is the format of POSIX (ustar): paths are limited to 255 bytes, files to 8 GiB.
func Tar(w io.Writer, at time.Time, files []File) error {
	t := tar.NewWriter(w)
	for _, f := range sorted(files) {
		size, content, err := f.open()
		if err != nil {
			return err
		}
		header := &tar.Header{
			Name: f.Name, Typeflag: tar.TypeReg, Mode: int64(f.Mode.Perm()), Size: size,
			ModTime: at, Uid: f.Owner, Gid: f.Owner, Format: tar.FormatUSTAR,
		}
		if f.Mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		if f.Mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, f.Name+"/"
		}
		if err := errors.Join(t.WriteHeader(header), copyAll(t, content)); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return t.Close()
}

// Zip is the format that Windows reads without more programs.
func Zip(w io.Writer, at time.Time, files []File) error {
	z := zip.NewWriter(w)
	for _, f := range sorted(files) {
		_, content, err := f.open()
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: at.UTC()}
		header.SetMode(f.Mode)
		if f.Mode.IsDir() {
			header.Name, header.Method = f.Name+"/", zip.Store
		}
		entry, err := z.CreateHeader(header)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", f.Name, err), content.Close())
		}
		if err := copyAll(entry, content); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return z.Close()
}

// sorted returns the files in the order of their names, which puts directories before what they
// hold.
func sorted(files []File) []File {
	return slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
}

// open returns the size and the content of a file.
func (f File) open() (int64, io.ReadCloser, error) {
	if f.Path == "" {
		return int64(len(f.Data)), io.NopCloser(bytes.NewReader(f.Data)), nil
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return 0, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, nil, errors.Join(err, file.Close())
	}
	return info.Size(), file, nil
}

// copyAll copies a file into its archive, and closes it.
func copyAll(w io.Writer, content io.ReadCloser) error {
	_, err := io.Copy(w, content)
	return errors.Join(err, content.Close())
}
