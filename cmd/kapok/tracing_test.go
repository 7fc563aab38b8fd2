package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A collector keeps the names of the spans that it receives, by their services.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer

	mu    sync.Mutex
	names map[string][]string
}

func (c *collector) Export(_ context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		service := ""
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.names[service] = append(c.names[service], span.Name)
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// TestTracing checks that a collector has received all spans when the program ends.
func TestTracing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	received := &collector{names: map[string][]string{}}
	at := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(at, received)
	served := make(chan error, 1)
	go func() { served <- at.Serve(listener) }()
	defer func() {
		at.Stop()
		<-served
	}()

	opts := kapok.Options{Logger: slog.New(slog.DiscardHandler)}
	stop, err := traceTo(tracingFile(t, "endpoint: "+listener.Addr().String()+"\nsamplingRatePerMillion: 1000000\n"), &opts)
	if err != nil {
		t.Fatal(err)
	}
	server, err := kapok.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(server.Config())
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	stop()
	if names := strings.Join(received.names["apiserver"], "\n"); !strings.Contains(names, "POST /api/v1/namespaces/{:namespace}/configmaps") || !strings.Contains(names, "Commit") {
		t.Errorf("the collector has received %v", received.names)
	}
}

func tracingFile(t *testing.T, rest string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTracingFile checks files with mistakes, and files in older versions.
func TestTracingFile(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"samplingRatePerMillion: 0\nendpoint: unix:///run/collector\n": "",
		"samplingRatePerMillion: 1000001\n":                            "less than or equal to one million",
		"samplingRatePerMillion: -1\n":                                 "must be positive",
		"endpoint: http://localhost:4317\n":                            "unsupported scheme",
		"sampling: 1\n":                                                "unknown field",
		"- a\n":                                                        "tracing.yaml",
	} {
		_, err := readTracing(tracingFile(t, text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, version := range []string{"apiserver.config.k8s.io/v1alpha1", "apiserver.config.k8s.io/v1beta1"} {
		file := filepath.Join(t.TempDir(), "tracing.yaml")
		if err := os.WriteFile(file, []byte("apiVersion: "+version+"\nkind: TracingConfiguration\nsamplingRatePerMillion: 7\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if config, err := readTracing(file); err != nil || *config.SamplingRatePerMillion != 7 {
			t.Errorf("%s: %v, %v", version, config, err)
		}
	}
	if _, err := traceTo(filepath.Join(t.TempDir(), "absent"), &kapok.Options{}); err == nil || !strings.HasPrefix(err.Error(), "--tracing-config-file: ") {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// TestLostSpans checks that errors of the exporter do not fill the log.
func TestLostSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lost := &lostSpans{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 100 {
			lost.Handle(errors.New("no collector"))
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "no collector"); n != 2 {
			t.Errorf("%d lines in 100 seconds, want 2:\n%s", n, &log)
		}
	})
}
