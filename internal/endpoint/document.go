package endpoint

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Document is served unchanged to users who are authorized for its path.
type Document struct {
	MediaType string
	// MaxAge is the time for which clients may cache it. Default 0: they request it each time.
	MaxAge time.Duration
	// Body returns the bytes.
	Body func() ([]byte, error)
}

// document serves the Document at the path of the request, with or without a trailing slash. It
// returns false if there is none.
func (c *call) document() bool {
	d, ok := c.h.opts.Documents[strings.TrimSuffix(c.info.Path, "/")]
	if !ok {
		return false
	}
	if c.r.Method != http.MethodGet {
		c.fail(methodNotAllowed())
		return true
	}
	if err := routable(c.r, []string{d.MediaType}); err != nil {
		c.fail(err)
		return true
	}
	body, err := d.Body()
	if err != nil {
		c.fail(err)
		return true
	}
	header := c.w.Header()
	header.Set("Content-Type", d.MediaType)
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int64(d.MaxAge/time.Second)))
	_, _ = c.w.Write(body) // fails only if the client has disconnected
	return true
}
