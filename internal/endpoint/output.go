package endpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/audit"
)

const (
	// Responses above gzipAbove bytes are compressed for clients that accept it, at the cheapest
	// level. Both values are those of Kubernetes.
	gzipAbove = 128 << 10
	gzipLevel = 1
	// gzipPiece is the number of compressed bytes that are collected before they are sent.
	gzipPiece = 32 << 10
	// spillAbove is the number of bytes of a response that are collected before they are sent.
	spillAbove = 256 << 10
	// keepBelow is the size up to which buffers are reused.
	keepBelow = 1 << 20
)

// output is the body of a response. The code that renders the response appends to buf, and calls
// spill regularly if the response may become large.
type output struct {
	c    *call
	code int
	m    media
	buf  []byte
	// converted reports whether buf is in the encoding of the response already, and not in JSON.
	converted bool
	indent    indenter // of pretty JSON
	scratch   []byte   // receives the indented buf

	// contentType is the Content-Type. Default: that of the encoding.
	contentType string

	// record receives the response, in JSON, before any of it is sent; nil if it is not recorded.
	record *audit.Record

	pooled  *[]byte
	started bool
	w       io.Writer
	gzip    *compressor // nil if the response is not compressed
}

// A compressor collects the output of gzip, which writes pieces of 240 bytes: [recorder.Write]
// waits for the client only with larger pieces.
type compressor struct {
	*gzip.Writer
	gathered *bufio.Writer
}

func (z *compressor) Close() error {
	if err := z.Writer.Close(); err != nil {
		return err
	}
	return z.gathered.Flush()
}

// answer returns an output for a response that is recorded, if the audit policy asks for it.
func (c *call) answer(code int, m media) *output {
	out := c.output(code, m)
	if m.encoding == asJSON && c.record.WantsResponse() {
		out.record = c.record
	}
	return out
}

func (c *call) output(code int, m media) *output {
	pooled, _ := c.h.buffers.Get().(*[]byte)
	if pooled == nil {
		pooled = new([]byte)
	}
	return &output{c: c, code: code, m: m, buf: (*pooled)[:0], pooled: pooled}
}

// spill sends buf if it is large enough.
func (o *output) spill() {
	if len(o.buf) < spillAbove || o.record != nil || o.m.encoding == asYAML && !o.converted {
		return
	}
	o.send()
}

func (o *output) send() {
	if o.pretty() {
		o.swapIndented()
	}
	if !o.started {
		o.start(false)
	}
	o.weigh()
	again := o.c.leaveLane()
	if _, err := o.w.Write(o.buf); err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	if again {
		o.c.enterLaneAgain()
	}
	o.buf = o.buf[:0]
}

func (o *output) pretty() bool { return o.m.encoding == asJSON && o.m.pretty }

// swapIndented indents buf.
func (o *output) swapIndented() {
	indented := o.indent.append(o.scratch[:0], o.buf)
	o.buf, o.scratch = indented, o.buf
}

// weigh sets the memory that the response retains while it waits for its client.
func (o *output) weigh() {
	o.c.keeps = int64(cap(o.buf) + cap(o.scratch))
	if o.gzip != nil {
		o.c.keeps += gzipState
	}
}

// start sends the header. complete reports whether buf is the whole response.
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
		o.gzip = o.c.h.compressor(&o.c.w)
		o.w = o.gzip
	case complete:
		header.Set("Content-Length", strconv.Itoa(len(o.buf)))
	}
	o.c.w.WriteHeader(o.code)
}

// close completes a response, or sends the error that rendering returned.
func (o *output) close(err error) {
	if err != nil {
		o.drop(err)
		return
	}
	o.end()
}

// end completes the response. buf must not be used afterwards.
func (o *output) end() {
	o.hand()
	if err := o.finish(); err != nil {
		o.release()
		o.c.fail(err)
		return
	}
	streams := o.started
	if !o.started {
		o.start(true)
	}
	o.weigh()
	o.c.leaveLane()
	_, err := o.w.Write(o.buf)
	if o.gzip != nil {
		err = cmp.Or(err, o.gzip.Close())
		o.c.h.gzips.Put(o.gzip)
	}
	o.release()
	if streams && err == nil {
		o.c.w.Flush() // bounds the wait for the client
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// hand passes the complete response to the record. A large one is then sent in pieces, as spill
// would have sent it.
func (o *output) hand() {
	switch {
	case o.record == nil:
		return
	case len(o.buf) <= spillAbove:
		o.record.ResponseObject(bytes.Clone(o.buf))
		o.record = nil
		return
	}
	whole := o.buf
	o.record.ResponseObject(whole)
	o.record = nil
	o.buf = make([]byte, 0, spillAbove)
	for piece := range slices.Chunk(whole, spillAbove) {
		o.spill()
		o.buf = append(o.buf, piece...)
	}
}

// finish converts a complete response, or the last part of it, to its encoding.
func (o *output) finish() error {
	switch {
	case o.m.encoding == asYAML && !o.converted:
		converted, err := toYAML(o.buf)
		if err != nil {
			return err
		}
		o.buf = converted
	case o.pretty():
		o.swapIndented()
	case o.m.encoding == asJSON:
		o.buf = append(o.buf, '\n')
	}
	return nil
}

// drop abandons a response after an error: it sends the error, or aborts if a part of the response
// was sent.
func (o *output) drop(err error) {
	o.release()
	if o.started {
		o.c.h.log.Error("response aborted", "uri", o.c.r.RequestURI, "error", err)
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

func (h *Handler) compressor(w io.Writer) *compressor {
	if z, ok := h.gzips.Get().(*compressor); ok {
		z.gathered.Reset(w)
		z.Reset(z.gathered)
		return z
	}
	gathered := bufio.NewWriterSize(w, gzipPiece)
	z, _ := gzip.NewWriterLevel(gathered, gzipLevel) // fails for levels that do not exist
	return &compressor{z, gathered}
}

func acceptsGzip(r *http.Request) bool {
	for token := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(token) == "gzip" {
			return true
		}
	}
	return false
}

// typed renders a value of a Go type of the API.
func (o *output) typed(v any, apiVersion, kind string) (err error) {
	o.buf, err = appendTyped(o.buf, o.m.encoding, v, apiVersion, kind)
	return err
}

// appendTyped encodes a value of a Go type of the API. Its TypeMeta must be set.
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
