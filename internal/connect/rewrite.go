package connect

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/proxy"
)

// longestPage is the maximum size of an HTML page, in bytes, whose links are changed: the page is
// in memory meanwhile. Larger ones are errors.
const longestPage = 16 << 20

// rewriting changes redirects and the links of HTML pages so that they lead through the proxy, as
// kube-apiserver does.
type rewriting struct {
	by     http.RoundTripper
	prefix string // the path of the proxy
}

// RoundTrip implements http.RoundTripper.
func (x *rewriting) RoundTrip(r *http.Request) (*http.Response, error) {
	page := &page{by: x.by}
	answer, err := (&proxy.Transport{PathPrepend: x.prefix, RoundTripper: page}).RoundTrip(r)
	if err == nil && page.hidden != "" {
		answer.Header.Set("Content-Type", page.hidden)
	}
	return answer, err
}

// page prepares a response for proxy.Transport, which reads the whole of an HTML page. It limits
// the size of the page, also of a compressed one, and hides the type of one that cannot be changed.
type page struct {
	by     http.RoundTripper
	hidden string // the Content-Type
}

// RoundTrip implements http.RoundTripper.
func (p *page) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := p.by.RoundTrip(r)
	if err != nil || answer.Header.Get("Location") != "" || !isPage(answer.Header) {
		return answer, err
	}
	var plain io.Reader
	switch encoding := answer.Header.Get("Content-Encoding"); {
	case r.Method == http.MethodHead:
		p.hide(answer)
		return answer, nil
	case encoding == "":
		answer.Body = &bounded{ReadCloser: answer.Body, left: longestPage}
		return answer, nil
	case encoding == "gzip":
		if plain, err = gzip.NewReader(answer.Body); err != nil {
			answer.Body.Close()
			return nil, fmt.Errorf("read the compressed page: %w", err)
		}
	case encoding == "deflate":
		plain = flate.NewReader(answer.Body)
	default:
		p.hide(answer)
		return answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(&bounded{ReadCloser: io.NopCloser(plain), left: longestPage})
	if err != nil {
		return nil, fmt.Errorf("read the compressed page: %w", err)
	}
	answer.Header.Del("Content-Encoding")
	answer.Header.Del("Content-Length")
	answer.ContentLength = int64(len(text))
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer, nil
}

func (p *page) hide(answer *http.Response) {
	p.hidden = answer.Header.Get("Content-Type")
	answer.Header.Del("Content-Type")
}

func isPage(header http.Header) bool {
	mediaType, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.TrimSpace(mediaType) == "text/html"
}

// bounded is a body that fails after a number of bytes.
type bounded struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the page has more than %d bytes", longestPage)
	}
	return n, err
}
