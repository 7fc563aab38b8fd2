package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	asJSON  = "application/json"
	asMerge = "application/merge-patch+json"
	asApply = "application/apply-patch+yaml"
)

// patience bounds each request, except for watches.
const patience = time.Minute

// A dialler creates clients of one server.
type dialler struct {
	config *rest.Config
	host   string // the prefix of URLs
	waited atomic.Int64
}

func newDialler(config *rest.Config) (*dialler, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "kapok-bench"
	config.Timeout = 0               // each request has its own
	config.DisableCompression = true // except for lists that request it
	if config.Dial == nil {
		// client-go shares connections between equal configurations, unless they have a Dial
		// function.
		config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &dialler{config: config, host: strings.TrimSuffix(url.String(), "/")}, nil
}

// A client sends requests over connections that no other client uses: a single one, if the server
// speaks HTTP/2 and allows as many concurrent requests.
type client struct {
	*dialler
	http *http.Client
}

// client returns a client that is not connected yet.
func (d *dialler) client() (*client, error) {
	h, err := rest.HTTPClientFor(d.config)
	if err != nil {
		return nil, err
	}
	return &client{d, h}, nil
}

func (c *client) close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// A request is an HTTP request of a client.
type request struct {
	method, path, contentType, body string
	encoding                        string // Accept-Encoding; empty for none
	impatient                       bool   // returns 429 as an error instead of retrying
}

// do sends a request and reads the response to its end.
func (c *client) do(ctx context.Context, r request) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no response within %v", patience))
	defer cancel()
	answer, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err = io.Copy(io.Discard, answer.Body); err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, cause(ctx, err))
	}
	return nil
}

// get sends a GET request and decodes the JSON of the response.
func (c *client) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no response within %v", patience))
	defer cancel()
	answer, err := c.send(ctx, request{method: "GET", path: path})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return fmt.Errorf("GET %s: %w", path, cause(ctx, err))
	}
	return nil
}

// send sends a request. It retries after the time in Retry-After while the server responds with
// 429. The caller closes the body of the response.
func (c *client) send(ctx context.Context, r request) (*http.Response, error) {
	for {
		h, err := http.NewRequestWithContext(ctx, r.method, c.host+r.path, strings.NewReader(r.body))
		if err != nil {
			return nil, err
		}
		if r.contentType != "" {
			h.Header.Set("Content-Type", r.contentType)
		}
		h.Header.Set("Accept", asJSON)
		if r.encoding != "" {
			h.Header.Set("Accept-Encoding", r.encoding)
		}
		answer, err := c.http.Do(h)
		if err != nil {
			return nil, cause(ctx, err)
		}
		if answer.StatusCode < 300 {
			return answer, nil
		}
		refusal := newRefusal(r, answer)
		answer.Body.Close()
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if r.impatient || refusal.code != http.StatusTooManyRequests || err != nil {
			return nil, refusal
		}
		c.waited.Add(1)
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", refusal, context.Cause(ctx))
		}
	}
}

// cause returns the cause of a context that has ended, and err otherwise.
func cause(ctx context.Context, err error) error {
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	return err
}

// A refusal is a response without success.
type refusal struct {
	request
	code    int
	message string
}

func newRefusal(r request, answer *http.Response) *refusal {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // as much of the reason as can be read
	var status metav1.Status
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = strings.TrimSpace(string(text[:min(len(text), 200)]))
	}
	return &refusal{r, answer.StatusCode, status.Message}
}

func (r *refusal) Error() string {
	path, _, _ := strings.Cut(r.path, "?")
	text := fmt.Sprintf("%s %s: %d %s", r.method, path, r.code, http.StatusText(r.code))
	if r.message != "" {
		text += ": " + r.message
	}
	return text
}

// refusedWith reports whether an error is a refusal with a status code.
func refusedWith(err error, code int) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == code
}
