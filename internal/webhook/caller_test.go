package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/crd/conversion/hooktest"
	"github.com/kapok-dev/kapok/internal/webhook"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func codecs() runtime.NegotiatedSerializer { return serializer.NewCodecFactory(runtime.NewScheme()) }

// call posts an empty review and returns the body.
func call(ctx context.Context, c *webhook.Caller, config webhook.Config) (string, error) {
	client, err := c.Client(webhook.NewHook(config), codecs())
	if err != nil {
		return "", err
	}
	body, err := client.Post().SetHeader("Content-Type", "application/json").Body([]byte(`{}`)).Do(ctx).Raw()
	return string(body), err
}

func say(text string) func(*hooktest.Review) any {
	return func(*hooktest.Review) any { return []byte(text) }
}

// at is a cluster in which every service has the same address.
type at string

func (a at) Resolve(namespace, name string, port int32) (string, error) {
	if a == "" {
		return "", fmt.Errorf("no service %s/%s:%d", namespace, name, port)
	}
	return string(a), nil
}

func TestCall(t *testing.T) {
	hook := hooktest.Start(t, say("hello"))
	other := hooktest.Start(t, say("hello"))
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // must have no effect
	service := &webhook.Service{Namespace: "default", Name: "hook", Path: "/convert"}
	for _, row := range []struct {
		name   string
		config webhook.Config
		at     at
		want   string // part of the error; "" for none
	}{
		{name: "url", config: webhook.Config{URL: hook.URL, CABundle: hook.CA}},
		{name: "url of localhost", config: webhook.Config{URL: strings.Replace(hook.URL, "127.0.0.1", "localhost", 1), CABundle: hook.CA}},
		{name: "several authorities", config: webhook.Config{URL: hook.URL, CABundle: append(bytes.Clone(other.CA), hook.CA...)}},
		{name: "another authority", config: webhook.Config{URL: hook.URL, CABundle: other.CA},
			want: "/convert?timeout=30s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{name: "no authority", config: webhook.Config{URL: hook.URL}, want: "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{name: "blank authority", config: webhook.Config{URL: hook.URL, CABundle: []byte(" \n")}, want: "certificate signed by unknown authority"},
		{name: "bad authority", config: webhook.Config{URL: hook.URL, CABundle: []byte("x")}, want: "unable to load root certificates: unable to parse bytes as PEM block"},
		{name: "service", config: webhook.Config{Service: service, CABundle: hook.CA}, at: at(hook.Address())},
		{name: "service with another name", config: webhook.Config{Service: &webhook.Service{Namespace: "x", Name: "hook"}, CABundle: hook.CA}, at: at(hook.Address()),
			want: `Post "https://hook.x.svc:443/?timeout=30s": tls: failed to verify certificate: x509: certificate is valid for localhost, hook.default.svc, not hook.x.svc`},
		{name: "service that is not there", config: webhook.Config{Service: service}, want: `Post "https://hook.default.svc:443/convert?timeout=30s": no service default/hook:443`},
		{name: "service on a port", config: webhook.Config{Service: &webhook.Service{Namespace: "default", Name: "hook", Port: 8443}}, want: `Post "https://hook.default.svc:8443/?timeout=30s": no service default/hook:8443`},
		{name: "neither", config: webhook.Config{Name: "h"}, want: `failed calling webhook "h": webhook configuration must have either service or URL`},
		{name: "no URL", config: webhook.Config{Name: "h", URL: "https://a b"}, want: `failed calling webhook "h": Unparsable URL: parse "https://a b": invalid character " " in host name`},
		{name: "no server", config: webhook.Config{URL: "https://127.0.0.1:1/x"}, want: `Post "https://127.0.0.1:1/x?timeout=30s": dial tcp 127.0.0.1:1: connect: connection refused`},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := webhook.New(webhook.Options{Services: row.at})
			defer c.Close()
			got, err := call(context.Background(), c, row.config)
			switch {
			case row.want == "" && (err != nil || got != "hello"):
				t.Errorf("got %q, %v", got, err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("error %v, want %s", err, row.want)
			}
		})
	}
}

// TestInside checks that a service of this process needs no certificate and no valid CA bundle.
func TestInside(t *testing.T) {
	var serving sync.WaitGroup
	c := webhook.New(webhook.Options{Inside: func(namespace, _ string) func(context.Context) (net.Conn, error) {
		if namespace != "here" {
			return nil
		}
		return func(context.Context) (net.Conn, error) {
			client, server := net.Pipe()
			serving.Go(func() {
				defer server.Close()
				r, err := http.ReadRequest(bufio.NewReader(server))
				if err == nil {
					_, err = io.Copy(io.Discard, r.Body)
				}
				if err == nil {
					_, err = fmt.Fprintf(server, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(r.Host), r.Host)
				}
				if err != nil {
					t.Error(err)
				}
			})
			return client, nil
		}
	}})
	defer serving.Wait()
	defer c.Close()
	service := &webhook.Service{Namespace: "here", Name: "hook", Path: "/convert"}
	got, err := call(t.Context(), c, webhook.Config{Service: service, CABundle: []byte("none")})
	if want := "hook.here.svc:443"; err != nil || got != want {
		t.Errorf("got %q, %v, want %s", got, err, want)
	}
	elsewhere := &webhook.Service{Namespace: "elsewhere", Name: "hook"}
	if _, err := call(t.Context(), c, webhook.Config{Service: elsewhere}); err == nil || !strings.Contains(err.Error(), `service "hook" not found`) {
		t.Errorf("elsewhere: %v", err)
	}
}

// TestReuse counts the connections of many calls with equal configurations.
func TestReuse(t *testing.T) {
	hook := hooktest.Start(t, say("hello"))
	var dialled atomic.Int32
	c := webhook.New(webhook.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	defer c.Close()
	for n := range 20 {
		config := webhook.Config{Name: fmt.Sprint("hook", n), URL: hook.URL, CABundle: bytes.Clone(hook.CA)}
		if _, err := call(context.Background(), c, config); err != nil {
			t.Fatal(err)
		}
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	hook := hooktest.Start(t, func(*hooktest.Review) any { <-release; return "" })
	defer close(release)
	c := webhook.New(webhook.Options{Timeout: 50 * time.Millisecond})
	defer c.Close()
	_, err := call(context.Background(), c, webhook.Config{URL: hook.URL, CABundle: hook.CA})
	// Two timers end at the same time, as in Kubernetes; either error may win.
	prefix := fmt.Sprintf(`Post "%s?timeout=50ms": `, hook.URL)
	if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), "exceeded") {
		t.Errorf("got  %v\nwant %s...", err, prefix)
	}
}

func TestLargeAnswer(t *testing.T) {
	megabyte := bytes.Repeat([]byte("x"), 1<<20)
	server := hooktest.Start(t, func(*hooktest.Review) any { return bytes.Repeat(megabyte, 65) })
	c := webhook.New(webhook.Options{})
	defer c.Close()
	_, err := call(context.Background(), c, webhook.Config{URL: server.URL, CABundle: server.CA})
	if err == nil || !strings.Contains(err.Error(), "the response is larger than 67108864 bytes") {
		t.Error(err)
	}
}

// TestClose cancels a call without a response, and rejects later calls.
func TestClose(t *testing.T) {
	called, release := make(chan struct{}), make(chan struct{})
	hook := hooktest.Start(t, func(*hooktest.Review) any { close(called); <-release; return "" })
	defer close(release)
	c := webhook.New(webhook.Options{})
	failed := make(chan error)
	config := webhook.Config{URL: hook.URL, CABundle: hook.CA}
	go func() { _, err := call(context.Background(), c, config); failed <- err }()
	<-called
	c.Close()
	if err := <-failed; err == nil {
		t.Error("no error")
	}
	if _, err := call(context.Background(), c, config); err == nil || !strings.Contains(err.Error(), "the server is shutting down") {
		t.Error(err)
	}
	c.Close() // the second call must not block
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	release := make(chan struct{})
	hook := hooktest.Start(t, func(*hooktest.Review) any { cancel(); <-release; return "" })
	defer close(release)
	c := webhook.New(webhook.Options{})
	defer c.Close()
	if _, err := call(ctx, c, webhook.Config{URL: hook.URL, CABundle: hook.CA}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestBubble calls over a connection in memory in a synctest bubble, in which a webhook that does
// not respond takes no real time.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		c := webhook.New(webhook.Options{Dial: func(context.Context, string, string) (net.Conn, error) { return here, nil }})
		defer c.Close()
		go func() { // accepts connections and never responds
			buf := make([]byte, 1<<10)
			for {
				if _, err := there.Read(buf); err != nil {
					return
				}
			}
		}()
		started := time.Now()
		_, err := call(context.Background(), c, webhook.Config{URL: "https://localhost/"})
		var timeout net.Error
		if took := time.Since(started); !errors.As(err, &timeout) || !timeout.Timeout() || took != 10*time.Second { // the timeout of the handshake
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestRestart checks that the first call after a restart of the webhook on the same address
// succeeds, although it may use a kept connection that is dead.
func TestRestart(t *testing.T) {
	service := &webhook.Service{Namespace: "default", Name: "hook"} // HTTP/1.1
	first := hooktest.Start(t, say("first"))
	address := at(first.Address())
	c := webhook.New(webhook.Options{Services: &address})
	defer c.Close()
	config := webhook.Config{Service: service, CABundle: append(bytes.Clone(first.CA), '\n'), Repeatable: true}
	second := hooktest.Start(t, say("second"))
	config.CABundle = append(config.CABundle, second.CA...)
	for _, want := range []string{"first", "second"} {
		for range 3 {
			if got, err := call(context.Background(), c, config); err != nil || got != want {
				t.Fatalf("got %q, %v, want %s", got, err, want)
			}
		}
		address = at(second.Address())
		first.Stop()
	}
}
