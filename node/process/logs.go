package process

import (
	"bytes"
	"io"
	"os"
	"strings"

	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/crilog"
	"github.com/kapok-dev/kapok/node/internal/kubelet"
	"github.com/kapok-dev/kapok/node/internal/proc"
)

// fallbackLines and fallbackBytes bound the termination message that is taken from a log.
const (
	fallbackLines = 80
	fallbackBytes = 2048
)

// lastLines returns the end of the log of a run.
func (p *pods) lastLines(id proc.ID) string {
	var out bytes.Buffer
	o := kubelet.LogOptions{Tail: fallbackLines, Limit: -1}
	if err := crilog.Read(p.ctx, p.runtime.Root(), p.runtime.LogPath(id), o, &out, func() bool { return true }); err != nil {
		return ""
	}
	text := out.Bytes()
	return strings.ToValidUTF8(string(text[max(0, len(text)-fallbackBytes):]), "\uFFFD")
}

// tailOf returns the end of a file, "" if there is none.
func tailOf(root *os.Root, name string, limit int64) string {
	f, err := beneath.Open(root, name, os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-limit), limit))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(data), "\uFFFD")
}
