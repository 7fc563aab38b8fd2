package encryption

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// every is how often Watch looks at the file.
const every = 10 * time.Second

// Watch loads the file anew when its content changes, until the context ends. A
// file that is missing or wrong is logged once, and changes nothing: what was
// loaded last stays in force. Nobody else may run Watch at the same time.
func (c *Config) Watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var complaint string
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := c.reload()
		switch {
		case err != nil && err.Error() != complaint:
			complaint = err.Error()
			log.Error("encryption configuration not loaded; the one before stays in force", "file", c.file, "err", err)
		case changed:
			log.Info("encryption configuration loaded", "file", c.file)
			for _, w := range c.Warnings() {
				log.Warn(w)
			}
		}
		if err == nil {
			complaint = ""
		}
	}
}

// Changed returns when Watch last put another configuration in force; zero if it
// never did. An object that was sealed or opened before may be stale without its
// Stale saying so.
func (c *Config) Changed() time.Time {
	if at := c.changed.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// reload loads the file if it is another one than what is in force.
func (c *Config) reload() (changed bool, err error) {
	f, err := read(c.file)
	if err != nil {
		return false, err
	}
	if f.sum() == c.current.Load().sum {
		return false, nil
	}
	s, err := f.settings()
	if err != nil {
		return false, err
	}
	if err := c.succeededBy(s); err != nil {
		return false, err
	}
	c.current.Store(s)
	c.changed.Store(new(time.Now())) // not before: what is sealed from now on is sealed anew
	return true, nil
}

// succeededBy returns an error if other settings cannot open what these write: what
// has been written just now, at least, must not be lost.
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
			return fmt.Errorf("what was written for %s so far could not be read any more; keep the provider that wrote, behind the new one, until everything has been written again: %w", r, err)
		}
	}
	return nil
}
