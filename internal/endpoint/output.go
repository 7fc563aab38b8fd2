package endpoint

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// Answers above gzipAbove bytes are compressed for clients that like that, at
	// the level that costs least. Both are Kubernetes' figures.
	gzipAbove = 128 << 10
	gzipLevel = 1
	// spillAbove is how many bytes of an answer are gathered before they are sent.
	spillAbove = 256 << 10
	// keepBelow is the size up to which buffers are kept for later answers.
	keepBelow = 1 << 20
)

// output is the body of an answer. Whoever makes the answer appends to buf, and
// calls spill now and then if it may become large.
type output struct {
	c    *call
	code int
	m    media
	buf  []byte
	// contentType is what the answer is called, if not by the name of its encoding.
	contentType string

	pooled  *[]byte
	started bool
	w       io.Writer
	gzip    *gzip.Writer
}

func (c *call) output(code int, m media) *output {
	pooled, _ := c.h.buffers.Get().(*[]byte)
	if pooled == nil {
		pooled = new([]byte)
	}
	return &output{c: c, code: code, m: m, buf: (*pooled)[:0], pooled: pooled}
}

// whole says that the answer is reworked once it is complete.
func (o *output) whole() bool {
	return o.m.encoding == asYAML || o.m.encoding == asJSON && o.m.pretty
}

// spill sends what is there, if it is worth it.
func (o *output) spill() {
	if len(o.buf) < spillAbove || o.whole() {
		return
	}
	o.send()
}

func (o *output) send() {
	if !o.started {
		o.start(false)
	}
	if _, err := o.w.Write(o.buf); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	o.buf = o.buf[:0]
}

// start sends the header; complete says that buf is the whole answer.
func (o *output) start(complete bool) {
	o.started = true
	o.w = &o.c.w
	header := o.c.w.Header()
	if o.contentType == "" {
		o.contentType = o.m.contentType()
	}
	header.Set("Content-Type", o.contentType)
	switch {
	case len(o.buf) > gzipAbove && acceptsGzip(o.c.r):
		header.Set("Content-Encoding", "gzip")
		header.Add("Vary", "Accept-Encoding")
		o.gzip = o.c.h.gzipWriter(&o.c.w)
		o.w = o.gzip
	case complete:
		header.Set("Content-Length", strconv.Itoa(len(o.buf)))
	}
	o.c.w.WriteHeader(o.code)
}

// end completes the answer. buf must not be used any more.
func (o *output) end() {
	if err := o.finish(); err != nil {
		o.release()
		o.c.fail(err)
		return
	}
	if !o.started {
		o.start(true)
	}
	_, err := o.w.Write(o.buf)
	if o.gzip != nil {
		_ = o.gzip.Close()
		o.c.h.gzips.Put(o.gzip)
	}
	o.release()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// finish brings a complete answer to its last shape.
func (o *output) finish() error {
	switch {
	case o.m.encoding == asYAML:
		converted, err := yaml.JSONToYAML(o.buf)
		if err != nil {
			return err
		}
		o.buf = converted
	case o.m.encoding == asJSON && o.m.pretty:
		var indented bytes.Buffer
		if err := json.Indent(&indented, o.buf, "", "  "); err != nil {
			return err
		}
		o.buf = indented.Bytes()
	case o.m.encoding == asJSON:
		o.buf = append(o.buf, '\n')
	}
	return nil
}

// drop gives an answer up that something has gone wrong with.
func (o *output) drop(err error) {
	o.release()
	if o.started {
		o.c.h.log.Error("answer broken off", "uri", o.c.r.RequestURI, "error", err)
		panic(http.ErrAbortHandler)
	}
	o.c.fail(err)
}

func (o *output) release() {
	if cap(o.buf) <= keepBelow {
		*o.pooled = o.buf[:0]
		o.c.h.buffers.Put(o.pooled)
	}
	o.buf = nil
}

func (h *Handler) gzipWriter(w io.Writer) *gzip.Writer {
	if z, ok := h.gzips.Get().(*gzip.Writer); ok {
		z.Reset(w)
		return z
	}
	z, _ := gzip.NewWriterLevel(w, gzipLevel) // fails for levels that do not exist
	return z
}

func acceptsGzip(r *http.Request) bool {
	for token := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(token) == "gzip" {
			return true
		}
	}
	return false
}

// answerTyped answers with a value of a Go type of the API.
func (c *call) answerTyped(code int, m media, v any, apiVersion, kind string) {
	o := c.output(code, m)
	var err error
	if o.buf, err = appendTyped(o.buf, m.encoding, v, apiVersion, kind); err != nil {
		o.drop(err)
		return
	}
	o.end()
}

// appendTyped encodes a value of a Go type of the API, which has its TypeMeta set.
func appendTyped(dst []byte, e encoding, v any, apiVersion, kind string) ([]byte, error) {
	if e == asProtobuf {
		if message, ok := v.(interface{ Marshal() ([]byte, error) }); ok {
			encoded, err := message.Marshal()
			return appendEnvelope(dst, apiVersion, kind, encoded), err
		}
	}
	encoded, err := json.Marshal(v)
	return append(dst, encoded...), err
}
