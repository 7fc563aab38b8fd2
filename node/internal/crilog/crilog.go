// Package crilog reads logs in the format of container runtimes: lines of time, stream, F for a
// whole line or P for a part of one, and text, in a file and in those into which it was rotated,
// FILE.1, FILE.2 and so on.
package crilog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/kubelet"
)

const (
	// followInterval is the time between two looks at a log that is followed.
	followInterval = 100 * time.Millisecond
	// maxLogFiles bounds the search for rotated files.
	maxLogFiles = 100
	// longestEntry is the maximum length of a line of a log file, in bytes. Containers can
	// write longer ones into the file, which are skipped.
	longestEntry = 64 << 10
)

// An entry is a line of a log, or a part of one.
type entry struct {
	time   time.Time
	stamp  []byte
	stream string
	whole  bool
	text   []byte
}

// parseEntry reads "TIME STREAM F TEXT".
func parseEntry(line []byte) (e entry, ok bool) {
	var stream, tag []byte
	var rest []byte
	if e.stamp, rest, ok = bytes.Cut(line, []byte(" ")); !ok {
		return e, false
	}
	if stream, rest, ok = bytes.Cut(rest, []byte(" ")); !ok {
		return e, false
	}
	if tag, e.text, ok = bytes.Cut(rest, []byte(" ")); !ok {
		return e, false
	}
	var err error
	e.time, err = time.Parse(time.RFC3339Nano, string(e.stamp))
	e.stream, e.whole = string(stream), string(tag) == "F"
	return e, err == nil
}

// A logReader writes a part of a log.
type logReader struct {
	options kubelet.LogOptions
	out     io.Writer
	written int
	begun   bool // a line whose end has not been written
}

var errLimit = errors.New("the limit of a log is reached")

// write writes an entry, if it is selected.
func (l *logReader) write(e *entry) error {
	if s := l.options.Stream; s != "" && !strings.EqualFold(s, "all") && !strings.EqualFold(s, e.stream) || e.time.Before(l.options.Since) {
		return nil
	}
	var line []byte
	if l.options.Timestamps && !l.begun {
		line = append(append(line, e.stamp...), ' ')
	}
	line = append(line, e.text...)
	if e.whole {
		line = append(line, '\n')
	}
	l.begun = !e.whole
	if limit := l.options.Limit; limit >= 0 && l.written+len(line) > limit {
		line = line[:limit-l.written]
	}
	n, err := l.out.Write(line)
	l.written += n
	if err == nil && l.options.Limit >= 0 && l.written >= l.options.Limit {
		err = errLimit
	}
	return err
}

// Read writes the log of a run as its options select it, and follows it until the run has ended.
// ended is called before the last read. The path is below root. out is flushed before each pause if
// it has a method Flush.
func Read(ctx context.Context, root *os.Root, path string, o kubelet.LogOptions, out io.Writer, ended func() bool) error {
	l := &logReader{options: o, out: out}
	over := ended()
	files, err := openLogs(root, path)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	skip := 0
	var ends []int64 // what is written after the lines were counted is not read, but followed
	if o.Tail >= 0 {
		total := 0
		for _, f := range files {
			err := eachLine(f, endless, func(line []byte) error {
				if e, ok := parseEntry(line); ok && e.whole {
					total++
				}
				return nil
			})
			if err != nil {
				return err
			}
			end, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			ends = append(ends, end)
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
		skip = max(0, total-o.Tail)
	}
	show := func(line []byte) error {
		e, ok := parseEntry(line)
		if !ok {
			return nil
		}
		if skip > 0 {
			if e.whole {
				skip--
			}
			return nil
		}
		return l.write(&e)
	}
	for i, f := range files {
		end := int64(endless)
		if ends != nil {
			end = ends[i]
		}
		if err := eachLine(f, end, show); err != nil {
			return quiet(err)
		}
	}
	if !o.Follow {
		return nil
	}
	return quiet(follow(ctx, root, path, &files, show, over, ended, out))
}

// follow writes what is added to a log.
func follow(ctx context.Context, root *os.Root, path string, files *[]*os.File, show func([]byte) error, over bool, ended func() bool, out io.Writer) error {
	flush, _ := out.(interface{ Flush() })
	for {
		if flush != nil {
			flush.Flush()
		}
		if over {
			return nil
		}
		timer := time.NewTimer(followInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		over = ended() // what was written before is read below
		var current *os.File
		if n := len(*files); n > 0 {
			current = (*files)[n-1]
			if err := eachLine(current, endless, show); err != nil {
				return err
			}
		}
		next, err := beneath.Open(root, path, os.O_RDONLY)
		if err != nil {
			continue // between two files
		}
		if current != nil && same(current, next) {
			next.Close()
			continue
		}
		if current != nil { // the file was renamed since: read its end
			if err := eachLine(current, endless, show); err != nil {
				next.Close()
				return err
			}
		}
		*files = append(*files, next)
		if err := eachLine(next, endless, show); err != nil {
			return err
		}
	}
}

func same(a, b *os.File) bool {
	one, err := a.Stat()
	two, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(one, two)
}

func quiet(err error) error {
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// openLogs opens the files of a log, the oldest one first.
func openLogs(root *os.Root, path string) (files []*os.File, err error) {
	for i := maxLogFiles; i >= 0; i-- {
		name := path
		if i > 0 {
			name = fmt.Sprint(path, ".", i)
		}
		f, err := beneath.Open(root, name, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// endless is the end of a file that may grow.
const endless = math.MaxInt64

// eachLine calls a function with each complete line from the offset of a file to an end, and moves
// the offset behind them.
func eachLine(f *os.File, end int64, do func(line []byte) error) error {
	from, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.LimitReader(f, end-from), longestEntry)
	long := false
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			from, long = from+int64(len(line)), true
			continue
		}
		if errors.Is(err, io.EOF) { // the rest is being written
			_, err := f.Seek(from, io.SeekStart)
			return err
		}
		if err != nil {
			return err
		}
		from += int64(len(line))
		if long {
			long = false
			continue
		}
		if err := do(line[:len(line)-1]); err != nil {
			return err
		}
	}
}
