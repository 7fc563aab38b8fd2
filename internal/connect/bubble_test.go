package connect_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/connect"
	"github.com/kapok-dev/kapok/internal/endpoint"
	"github.com/kapok-dev/kapok/internal/pki"
	"github.com/kapok-dev/kapok/internal/transport"
)

// A server is an API server in a bubble, with one program behind it: the pod p, and the kubelet of
// its node.
type server struct {
	*world
	handler *endpoint.Handler
	clients *transport.InProcess
}

func inBubble(t *testing.T, program http.HandlerFunc, test func(t *testing.T, s *server)) {
	synctest.Test(t, func(t *testing.T) {
		behind := transport.NewListener()
		credentials, err := pki.Open("", nil, []string{"192.0.2.1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		listening := &http.Server{Handler: program}
		served := make(chan struct{})
		go func() {
			defer close(served)
			listening.Serve(tls.NewListener(behind, &tls.Config{Certificates: []tls.Certificate{credentials.ServingCertificate()}}))
		}()
		defer func() {
			listening.Close()
			<-served
		}()
		s := &server{world: newWorld(t, connect.Options{
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return behind.Dial(ctx) },
		})}
		s.put(node + `---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: n1, containers: [{name: c, image: i}]}
status: {podIP: 192.0.2.1, podIPs: [{ip: 192.0.2.1}]}
`)
		s.handler = endpoint.New(endpoint.Options{Store: s.store, Connector: s.connector, Logger: slog.New(slog.DiscardHandler)})
		s.clients = transport.ServeInProcess(s.handler, slog.New(slog.DiscardHandler), authn.InProcessContext)
		test(t, s)
		s.clients.Refuse()
		s.handler.EndWatches()
		s.clients.Stop(t.Context())
		s.handler.Close()
		s.connector.Close()
	})
}

// get sends a request for a subresource of the pod.
func (s *server) get(subresource string) *http.Response {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), "GET", "http://kapok/api/v1/namespaces/default/pods/"+subresource, nil)
	if err != nil {
		s.Fatal(err)
	}
	answer, err := s.clients.RoundTrip(r)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { answer.Body.Close() })
	return answer
}

// TestPausedReader reads a log after an hour, as a user who pauses the output of kubectl.
func TestPausedReader(t *testing.T) {
	const size = 8 << 20
	inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Write(make([]byte, size))
	}, func(t *testing.T, s *server) {
		answer := s.get("p/log?follow=true")
		time.Sleep(time.Hour)
		if n, err := io.Copy(io.Discard, answer.Body); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// TestEndOfPausedReader ends the connections of the server while a client does not read.
func TestEndOfPausedReader(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}, func(t *testing.T, s *server) {
		s.get("p/log?follow=true")
		synctest.Wait()
		begin := time.Now()
		s.clients.Refuse()
		s.handler.EndWatches()
		s.clients.Stop(t.Context())
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// TestEndingResponse ends the connections of the server while a response is being sent: it ends as
// if it were complete.
func TestEndingResponse(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begun")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, func(t *testing.T, s *server) {
		answer := s.get("https:p:443/proxy/")
		synctest.Wait()
		s.handler.EndWatches()
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "begun" {
			t.Errorf("%q, %v", text, err)
		}
		if answer := s.get("https:p:443/proxy/"); answer.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("a later request: %s", answer.Status)
		}
	})
}

// TestNoConnector sends a request to a server that connects to nothing.
func TestNoConnector(t *testing.T) {
	w := newWorld(t, connect.Options{})
	handler := endpoint.New(endpoint.Options{Store: w.store, Logger: slog.New(slog.DiscardHandler)})
	clients := transport.ServeInProcess(handler, slog.New(slog.DiscardHandler), authn.InProcessContext)
	defer clients.Stop(t.Context())
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://kapok/api/v1/namespaces/default/pods/p/log", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := clients.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "does not connect to nodes") {
		t.Errorf("%s: %s", answer.Status, text)
	}
}
