package corpus

import (
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

// errSkip says that the server has no means to do what a step asks for.
var errSkip = errors.New("not possible on this server")

// patience bounds every wait for something that must come.
const patience = 30 * time.Second

// session is the state of one script: connections, namespace, kept answers, open streams.
type session struct {
	admin   *client
	nobody  *client
	compact func(context.Context) error
	n       *normalizer
	ns      string
	kept    map[string]any // answers by name, decoded
	streams map[string]*stream
	crds    []string // to be removed at the end

	hooks          hooks
	configurations []string // paths, to be removed at the end
	marks          int      // markers of configurations so far
}

// client is a way to the server.
type client struct {
	*http.Client
	base *url.URL
}

func newClient(config *rest.Config) (*client, error) {
	// Decompressing is left to the script's answer, so that it shows whether there was compression.
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

func newSession(ctx context.Context, config *rest.Config, o Options) (*session, error) {
	admin, err := newClient(rest.CopyConfig(config))
	if err != nil {
		return nil, err
	}
	anonymous := o.Anonymous
	if anonymous == nil {
		anonymous = config
	}
	nobody, err := newClient(rest.AnonymousClientConfig(anonymous))
	if err != nil {
		return nil, err
	}
	s := &session{
		admin:   admin,
		nobody:  nobody,
		compact: o.Compact,
		ns:      "corpus-" + strings.ToLower(rand.Text()[:6]),
		kept:    map[string]any{},
		streams: map[string]*stream{},
	}
	s.beginCase()
	a, err := s.ask(ctx, "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+s.ns+`"}}`)
	if err == nil && a.code != http.StatusCreated {
		err = fmt.Errorf("make namespace %s: %d %s", s.ns, a.code, a.body)
	}
	return s, err
}

// close ends the streams and removes what the file left behind, as far as the server alone can.
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

// step runs one command and returns what it prints.
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
			// A server that is putting a changed definition into service may drop a request.
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
