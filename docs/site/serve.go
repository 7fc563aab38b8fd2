package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// serve serves the site until the context ends. It prints the address.
func serve(ctx context.Context, o options, stdout io.Writer) error {
	listener, err := net.Listen("tcp", o.serve)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &preview{options: o}, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	fmt.Fprintf(stdout, "http://%s/%s/\n", listener.Addr(), o.version)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// preview serves the site of a clone as it is: each request of a page builds it again, which takes
// less than a second. Where the site is written, a failed build leaves no page; here, its errors
// are the page.
type preview struct {
	options options

	mu   sync.Mutex
	last site // the last one that was built
}

// ServeHTTP implements http.Handler.
func (p *preview) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, "/"+p.options.version+"/")
	switch {
	case r.URL.Path == "/" || r.URL.Path == "/"+p.options.version:
		http.Redirect(w, r, "/"+p.options.version+"/", http.StatusFound)
		return
	case r.URL.Path == "/"+versionsFile:
		list, err := listOf([]string{p.options.version})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(list) // the client may be gone
		return
	case !ok:
		http.NotFound(w, r)
		return
	}
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	s, err := p.site(path.Ext(name) == ".html")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	data, ok := s[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}

// site returns the site, built again if it must be new.
func (p *preview) site(again bool) (site, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if again || p.last == nil {
		s, err := build(os.DirFS(p.options.root), p.options)
		if err != nil {
			return nil, err
		}
		p.last = s
	}
	return p.last, nil
}
