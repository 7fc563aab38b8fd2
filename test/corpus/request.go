package corpus

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// A request is a request of a script, with everything expanded.
type request struct {
	method string
	path   string // with the query
	header http.Header
	body   []byte
}

// parseRequest parses "METHOD PATH", header lines, a blank line and a body.
func (s *session) parseRequest(input string, p parameters) (*request, error) {
	head, body, _ := strings.Cut(input, "\n\n")
	head, err := s.expand(head)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(head, "\n")
	method, path, ok := strings.Cut(lines[0], " ")
	if !ok {
		return nil, fmt.Errorf("want METHOD PATH, have %q", lines[0])
	}
	r := &request{method: method, path: path, header: http.Header{}}
	for _, line := range lines[1:] {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("want HEADER: VALUE, have %q", line)
		}
		r.header.Add(key, strings.TrimSpace(value))
	}
	if body == "" {
		return r, nil
	}
	if body, err = s.expand(body); err != nil {
		return nil, err
	}
	s.n.keepPrefixesOf(body)
	media := "application/yaml"
	switch p.body {
	case "":
		r.body = []byte(body)
		if body[0] == '{' || body[0] == '[' {
			media = "application/json"
		}
	case "quoted":
		unquoted, err := strconv.Unquote(body)
		if err != nil {
			return nil, fmt.Errorf("body %s: %w", body, err)
		}
		r.body = []byte(unquoted)
	case "protobuf":
		media = protobufMedia
		if r.body, err = protobufFromYAML([]byte(body)); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown body=%s", p.body)
	}
	if r.header.Get("Content-Type") == "" {
		r.header.Set("Content-Type", media)
	}
	return r, nil
}

var (
	variable = regexp.MustCompile(`\{([a-zA-Z][a-zA-Z0-9-]*)((?:\.[a-zA-Z0-9_-]+)*)\}`)
	repeated = regexp.MustCompile(`\{("(?:[^"\\]|\\.)*")\*(\d+)\}`)
)

// expand replaces {NAME}, {NAME.path} and {"text"*N}. An unknown name without a path is not
// changed.
func (s *session) expand(text string) (string, error) {
	var failed error
	text = variable.ReplaceAllStringFunc(text, func(m string) string {
		parts := variable.FindStringSubmatch(m)
		name, path := parts[1], parts[2]
		if name == "ns" && path == "" {
			return s.ns
		}
		kept, ok := s.kept[name]
		if path == "" {
			return m
		}
		if short, is := shortcuts[path]; is {
			path = short
		}
		value, found := field(kept, path)
		if !ok || !found {
			failed = fmt.Errorf("no value for %s", m)
			return m
		}
		return fmt.Sprint(value)
	})
	text = repeated.ReplaceAllStringFunc(text, func(m string) string {
		parts := repeated.FindStringSubmatch(m)
		piece, err := strconv.Unquote(parts[1])
		n, err2 := strconv.Atoi(parts[2])
		if err != nil || err2 != nil {
			failed = fmt.Errorf("cannot repeat %s", m)
			return m
		}
		return strings.Repeat(piece, n)
	})
	return text, failed
}

var shortcuts = map[string]string{
	".rv":       ".metadata.resourceVersion",
	".uid":      ".metadata.uid",
	".continue": ".metadata.continue",
}

// send sends the request and reads the whole response.
func (s *session) send(ctx context.Context, r *request, anonymous bool) (*answer, error) {
	response, err := s.open(ctx, r, anonymous)
	if err != nil {
		return nil, err
	}
	return readAnswer(response)
}

// open sends the request and leaves the body of the response to the caller.
func (s *session) open(ctx context.Context, r *request, anonymous bool) (*http.Response, error) {
	c := s.admin
	if anonymous {
		c = s.anonymous
	}
	target, err := url.Parse(strings.TrimSuffix(c.base.String(), "/") + strings.ReplaceAll(r.path, " ", "%20"))
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, r.method, target.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if len(r.body) == 0 {
		request.Body, request.ContentLength = nil, 0
	}
	request.Header = r.header.Clone()
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "corpus/1.0")
	}
	return c.Do(request)
}

// ask sends a request of the runner itself.
func (s *session) ask(ctx context.Context, method, path, body string) (*answer, error) {
	r := &request{method: method, path: path, header: http.Header{"Accept": {"application/json"}}, body: []byte(body)}
	if body != "" {
		r.header.Set("Content-Type", "application/json")
	}
	return s.send(ctx, r, false)
}
