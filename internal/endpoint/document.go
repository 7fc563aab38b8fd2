package endpoint

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Document is served as it is to those who may get its path.
type Document struct {
	MediaType string
	// MaxAge is how long who has it may keep it.
	MaxAge time.Duration
	// Body returns the bytes.
	Body func() ([]byte, error)
}

// document serves a Document, if there is one at the path, with or without a slash behind it.
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
	_, _ = c.w.Write(body) // a client that is gone misses nothing
	return true
}
