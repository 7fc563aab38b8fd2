package corpus

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"k8s.io/client-go/rest"
)

// errSkip means that the server does not support what a step needs.
var errSkip = errors.New("not possible on this server")

// patience bounds every wait.
const patience = 30 * time.Second

// A session is the state of one script: connections, namespace, kept responses, open streams.
type session struct {
	admin     *client
	anonymous *client
	compact   func(context.Context) error
	n         *normalizer
	ns        string
	kept      map[string]any // decoded responses by name
	streams   map[string]*stream
	crds      []string // to be deleted at the end

	hooks          hooks
	configurations []string // paths, to be deleted at the end
	marks          int      // number of markers of configurations so far
}

// A client is a connection to the server.
type client struct {
	*http.Client
	base *url.URL
}

func newClient(config *rest.Config) (*client, error) {
	// The client does not decompress, so that responses show whether they are compressed.
	config.DisableCompression = true
	config.UserAgent = "corpus/1.0"
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base, _, err := rest.DefaultServerUrlFor(config)
	return &client{Client: c, base: base}, err
}

func newSession(ctx context.Context, server Server) (*session, error) {
	admin, err := newClient(rest.CopyConfig(server.Config))
	if err != nil {
		return nil, err
	}
	target := server.Anonymous
	if target == nil {
		target = server.Config
	}
	anonymous, err := newClient(rest.AnonymousClientConfig(target))
	if err != nil {
		return nil, err
	}
	s := &session{
		admin:     admin,
		anonymous: anonymous,
		compact:   server.Compact,
		ns:        cmp.Or(server.Namespace, "corpus-"+strings.ToLower(rand.Text()[:6])),
		kept:      map[string]any{},
		streams:   map[string]*stream{},
	}
	s.beginCase()
	if server.Namespace != "" {
		return s, nil
	}
	a, err := s.ask(ctx, "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+s.ns+`"}}`)
	if err == nil && a.code != http.StatusCreated {
		err = fmt.Errorf("make namespace %s: %d %s", s.ns, a.code, a.body)
	}
	return s, err
}

// close ends the streams and deletes the objects that the script created, unless the server deletes
// them itself.
func (s *session) close() {
	for _, w := range s.streams {
		w.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.unconfigure(ctx)
	s.hooks.close()
	for _, name := range s.crds {
		s.ask(ctx, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, "")
	}
	s.ask(ctx, "DELETE", "/api/v1/namespaces/"+s.ns, "")
}

func (s *session) beginCase() {
	var prefixes []string
	if s.n != nil {
		prefixes = s.n.prefixes
	}
	s.n = newNormalizer(s.ns, prefixes)
}

// step runs one command and returns its output.
func (s *session) step(ctx context.Context, d *datadriven.TestData) (string, error) {
	p, err := parseParameters(d.CmdArgs)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	s.n.keepValuesOf(d.Input)
	switch d.Cmd {
	case "http":
		return s.stepHTTP(ctx, d.Input, p)
	case "crd":
		return s.stepCRD(ctx, d.Input, p)
	case "watch":
		return s.stepWatch(d.Input, p)
	case "events":
		return s.stepEvents(p)
	case "wait-crd":
		return "", s.waitCRD(ctx, p.name)
	case "wait-gone":
		return "", s.waitGone(ctx, p.name)
	case "wait-for":
		return "", s.waitFor(ctx, p.name, p.text)
	case "hook":
		return "", s.stepHook(d.Input, p)
	case "asked":
		return s.stepAsked(p)
	case "configured":
		return "", s.stepConfigured(ctx)
	case "unconfigure":
		return "", s.unconfigure(ctx)
	case "compact":
		if s.compact == nil {
			return "", errSkip
		}
		return "", s.compact(ctx)
	}
	return "", fmt.Errorf("unknown command %q", d.Cmd)
}

func (s *session) stepHTTP(ctx context.Context, input string, p parameters) (string, error) {
	for {
		r, err := s.parseRequest(input, p)
		if err != nil {
			return "", err
		}
		a, err := s.send(ctx, r, p.anonymous)
		if err != nil {
			// A server can drop a request while it replaces a changed definition.
			if p.until != 0 && pause(ctx) {
				continue
			}
			return "", err
		}
		s.noteCRD(r, a)
		s.noteConfiguration(r, a)
		if p.until != 0 && a.code != p.until {
			if !pause(ctx) {
				return "", fmt.Errorf("still %d, not %d: %s", a.code, p.until, a.body)
			}
			continue
		}
		v, _ := a.decode()
		if p.as != "" {
			s.kept[p.as] = a.keep(v, p.keep)
		}
		return a.print(s.n, p)
	}
}
