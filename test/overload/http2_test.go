package overload

import (
	"bytes"
	"io"
	"net"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames writes HTTP/2 frames.
type frames struct {
	*http2.Framer
	host    string
	header  bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32 // the next one
}

// newFrames starts HTTP/2 on a connection.
func (b *battle) newFrames(conn net.Conn, settings ...http2.Setting) (*frames, error) {
	f := &frames{Framer: http2.NewFramer(conn, conn), host: strings.TrimPrefix(b.server.admin.Host, "https://"), stream: 1}
	f.encoder = hpack.NewEncoder(&f.header)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	return f, f.WriteSettings(settings...)
}

// ask sends the headers of a request on a new stream.
func (f *frames) ask(method, path string, end bool, headers ...string) (stream uint32, err error) {
	f.header.Reset()
	headers = append([]string{":method", method, ":scheme", "https", ":authority", f.host, ":path", path}, headers...)
	for i := 0; i < len(headers); i += 2 {
		if err := f.encoder.WriteField(hpack.HeaderField{Name: headers[i], Value: headers[i+1]}); err != nil {
			return 0, err
		}
	}
	stream = f.stream
	f.stream += 2
	return stream, f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.header.Bytes(), EndStream: end, EndHeaders: true})
}
