package proc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/node/internal/beneath"
)

const (
	defaultLogBytes = 10 << 20
	defaultLogFiles = 5
	// longestLine is the length of a part of a line in a log.
	longestLine = 16 << 10
	// timeFormat is that of a log.
	timeFormat = "2006-01-02T15:04:05.000000000Z07:00"
)

// A logFile is the log of a run in the format of container runtimes: time, stream, F for a whole
// line or P for a part of one, and text. Files that have reached their size are renamed to log.1,
// log.2 and so on; the oldest one is removed.
//
// A part that cannot be written, because the disk is full, is lost: the files stay as they are.
type logFile struct {
	dir   *os.Root
	name  string
	limit int64
	files int

	mu   sync.Mutex
	file *os.File // nil after an error: what follows is lost until the file can be opened
	size int64
}

func openLog(dir *os.Root, name string, limit int64, files int) *logFile {
	if limit <= 0 {
		limit = defaultLogBytes
	}
	if files <= 0 {
		files = defaultLogFiles
	}
	return &logFile{dir: dir, name: name, limit: limit, files: files}
}

// appendEntry appends a line of a stream, or a part of one, in the format of the log.
func appendEntry(b []byte, at time.Time, stream string, whole bool, text []byte) []byte {
	b = at.AppendFormat(b, timeFormat)
	b = append(append(append(b, ' '), stream...), ' ')
	if whole {
		b = append(b, "F "...)
	} else {
		b = append(b, "P "...)
	}
	return append(append(b, text...), '\n')
}

// write writes entries. The one with which a file reaches its size is its last one.
func (l *logFile) write(entries []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(entries) > 0 {
		if l.file == nil && !l.openLocked() {
			return
		}
		part := entries
		if room := max(1, l.limit-l.size); int64(len(entries)) > room {
			part = entries[:int(room)+bytes.IndexByte(entries[room-1:], '\n')]
		}
		n, err := l.file.Write(part)
		if err != nil {
			_ = l.file.Truncate(l.size) // a part of an entry
			l.file.Close()
			l.file = nil
			return
		}
		entries = entries[n:]
		if l.size += int64(n); l.size >= l.limit {
			l.rotateLocked()
		}
	}
}

func (l *logFile) openLocked() bool {
	// What is there is continued if it is a file, and replaced if it is something else that the
	// container has put there.
	f, err := beneath.Open(l.dir, l.name, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		_ = l.dir.Remove(l.name)
		if f, err = l.dir.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600); err != nil {
			return false
		}
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return false
	}
	l.file, l.size = f, info.Size()
	return true
}

func (l *logFile) rotateLocked() {
	l.file.Close()
	l.file = nil
	for i := l.files - 1; i > 0; i-- {
		from := l.name
		if i > 1 {
			from = fmt.Sprint(l.name, ".", i-1)
		}
		_ = l.dir.Rename(from, fmt.Sprint(l.name, ".", i)) // fails if there is none
	}
	if l.files == 1 {
		_ = l.dir.Remove(l.name)
	}
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// copyLines copies a stream of a container to its log and to those that are attached, until its
// end. What one read returns is written at once: a container may write many short lines.
func copyLines(from io.Reader, stream string, to *logFile, also io.Writer) {
	var pending, entries []byte
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		now := time.Now().UTC()
		entries = entries[:0]
		if n > 0 {
			also.Write(buffer[:n]) // does not fail: those that do not read are detached
			pending = append(pending, buffer[:n]...)
			rest := pending
			for {
				i := bytes.IndexByte(rest[:min(len(rest), longestLine)], '\n')
				switch {
				case i >= 0:
					entries = appendEntry(entries, now, stream, true, rest[:i])
					rest = rest[i+1:]
					continue
				case len(rest) >= longestLine:
					entries = appendEntry(entries, now, stream, false, rest[:longestLine])
					rest = rest[longestLine:]
					continue
				}
				break
			}
			pending = append(pending[:0], rest...)
		}
		if err != nil && len(pending) > 0 {
			entries = appendEntry(entries, now, stream, false, pending)
		}
		if len(entries) > 0 {
			to.write(entries)
		}
		if err != nil {
			return
		}
	}
}
