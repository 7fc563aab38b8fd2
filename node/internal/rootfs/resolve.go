package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// maxLinks is the number of symbolic links that Resolve follows.
const maxLinks = 255

// Resolve returns the path of a file after all symbolic links, relative to the root, as a process
// would find it whose root directory this is: an absolute link begins at the root, and .. does not
// leave it. A part that does not exist is kept, with those after it. A path of more than 256
// directories is an error, and so is one with too many parts on the way.
func Resolve(root *os.Root, name string) (string, error) { return resolve(root, name, true) }

// resolve resolves a path, and with last also its last part.
func resolve(root *os.Root, name string, last bool) (string, error) {
	done, links, parts := ".", 0, 0
	rest := strings.Split(name, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done) // that of "." is "."
			continue
		}
		next := path.Join(done, part)
		if parts++; parts > maxParts || strings.Count(next, "/") >= maxDepth {
			return "", fmt.Errorf("%.100q: %w", name, errDeep)
		}
		if !last && len(rest) == 0 {
			return next, nil
		}
		target, err := root.Readlink(next)
		switch {
		case err == nil:
			if links++; links > maxLinks {
				return "", &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
			}
			if path.IsAbs(target) {
				done = "."
			}
			rest = append(strings.Split(target, "/"), rest...)
			if len(rest) > maxParts {
				return "", fmt.Errorf("%.100q: %w", name, errDeep)
			}
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist): // not a link
			done = next
		default:
			return "", err
		}
	}
	return done, nil
}
