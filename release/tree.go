package main

import (
	"io/fs"
	"path"

	"github.com/kapok-dev/kapok/release/internal/archive"
)

// tree returns the files and directories below the root of a file system, with names below a
// prefix. The modes of the disk do not count, which depend on the umask.
func tree(from fs.FS, prefix string) ([]archive.File, error) {
	var files []archive.File
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file := archive.File{Name: path.Join(prefix, name), Mode: 0o644}
		switch {
		case file.Name == ".":
			return nil
		case d.IsDir():
			file.Mode = fs.ModeDir | 0o755
		default:
			if file.Data, err = fs.ReadFile(from, name); err != nil {
				return err
			}
		}
		files = append(files, file)
		return nil
	})
	return files, err
}
