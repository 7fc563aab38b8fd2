package linear

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// An Endpoint is a connection to the server, or to one of its replicas. It can go down and come
// back with another configuration. It is safe for concurrent use.
type Endpoint struct {
	Name string

	mu   sync.Mutex
	http *http.Client // nil while it is down
	host string
}

// errDown is the error of requests to an endpoint that is down. They are not sent.
var errDown = errors.New("the endpoint is down")

// Serve sets the configuration of the endpoint; nil means that it is down. Requests under way are
// not affected. A server that is not ready may reject requests or not respond, but must not return
// that a kind does not exist.
func (e *Endpoint) Serve(config *rest.Config) error {
	var client *http.Client
	var host string
	if config != nil {
		var err error
		if client, err = rest.HTTPClientFor(config); err != nil {
			return err
		}
		if host = config.Host; !strings.Contains(host, "://") {
			host = "https://" + host
		}
	}
	e.mu.Lock()
	old := e.http
	e.http, e.host = client, host
	e.mu.Unlock()
	if old != nil {
		old.CloseIdleConnections()
	}
	return nil
}

// send sends a request once. The caller closes the body.
func (e *Endpoint) send(ctx context.Context, method, path, contentType, body string) (*http.Response, error) {
	e.mu.Lock()
	client, host := e.http, e.host
	e.mu.Unlock()
	if client == nil {
		return nil, errDown
	}
	r, err := http.NewRequestWithContext(ctx, method, host+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body == "" {
		r.Body, r.GetBody = http.NoBody, nil
	} else {
		r.Header.Set("Content-Type", contentType)
	}
	r.Header.Set("Accept", "application/json")
	return client.Do(r)
}

// do sends a request and reads the response.
func (e *Endpoint) do(ctx context.Context, method, path, contentType, body string) (status int, answer wire, err error) {
	resp, err := e.send(ctx, method, path, contentType, body)
	if err != nil {
		return 0, wire{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, wire{}, err
	}
	return resp.StatusCode, decode(data), nil
}
