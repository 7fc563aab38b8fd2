package encryption

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/reload"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Watch loads the file again when its content changes, until ctx is done, and logs warnings about
// it. Watch must not be called concurrently.
func (c *Config) Watch(ctx context.Context, log *slog.Logger) {
	c.warn = log.Warn
	reload.Watch(ctx, log, c.source)
}

// Changed returns the time when Watch last activated another configuration; zero if it never has.
// Objects that were sealed or opened before then may be stale although they were not reported as
// stale.
func (c *Config) Changed() time.Time {
	if at := c.changed.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// load activates the content of the file.
func (c *Config) load(_ context.Context, contents [][]byte) error {
	s, err := parse(c.file, contents[0])
	if err != nil {
		return err
	}
	if c.current.Load() == nil { // called by Load
		c.current.Store(s)
		return nil
	}
	if err := c.succeededBy(s); err != nil {
		return err
	}
	c.current.Store(s)
	c.changed.Store(new(time.Now())) // after the change, so that objects sealed later are not older
	for _, w := range s.warnings {
		c.warn(w)
	}
	return nil
}

// succeededBy returns an error if other settings cannot decrypt what the current ones encrypt: at
// least the latest writes must not be lost.
func (c *Config) succeededBy(s *settings) error {
	next := &Config{file: c.file}
	next.current.Store(s)
	kinds := map[schema.GroupResource]bool{{Group: "example.com", Resource: "others"}: true}
	for _, chains := range []map[schema.GroupResource]chain{c.current.Load().chains, s.chains} {
		for r := range chains {
			if r.Resource == "*" {
				r.Resource = "others"
			}
			if r.Group == "*" {
				r.Group = "example.com"
			}
			kinds[r] = true
		}
	}
	for r := range kinds {
		key := object.Key{Resource: r, Namespace: "default", Name: "probe"}
		sealed, err := c.Seal(key, []byte(`{"metadata":{"name":"probe","namespace":"default","uid":"probe"}}`))
		if err != nil {
			return err
		}
		if _, _, err := next.Open(key, sealed); err != nil {
			return fmt.Errorf("objects of %s that are stored now could no longer be read: keep the provider that wrote them after the new one until all of them have been rewritten: %w", r, err)
		}
	}
	return nil
}
