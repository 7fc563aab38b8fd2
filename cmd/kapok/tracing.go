package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/component-base/tracing"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
)

// lastSpans is the time for sending the last spans after the server has stopped.
const lastSpans = 2 * time.Second

func tracingFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "tracing-config-file", "", "file with a TracingConfiguration: the OpenTelemetry collector that gets the spans of requests, and how many requests are recorded")
}

// traceTo sets the TracerProvider of the options to that of a TracingConfiguration; without a file
// it does nothing. The caller must call stop after the server has stopped.
func traceTo(file string, opts *kapok.Options) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	config, err := readTracing(file)
	if err != nil {
		return nil, fmt.Errorf("--tracing-config-file: %w", err)
	}
	log := opts.Logger
	otel.SetErrorHandler(&lostSpans{log: log})
	provider, err := tracing.NewProvider(context.Background(), config, nil, []resource.Option{
		resource.WithAttributes(semconv.ServiceName("apiserver"), semconv.ServiceVersion(kapok.KubernetesVersion)),
	})
	if err != nil {
		return nil, fmt.Errorf("--tracing-config-file: %s: %w", file, err)
	}
	opts.TracerProvider = provider
	return func() { stopTracing(provider, log) }, nil
}

// lostSpans logs errors of the exporter: the first, and then one in each time.
type lostSpans struct {
	log *slog.Logger

	mu   sync.Mutex
	next time.Time
}

// complainEvery is the time between two lines about spans that were not sent.
const complainEvery = time.Minute

// Handle implements otel.ErrorHandler.
func (l *lostSpans) Handle(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !now.Before(l.next) {
		l.next = now.Add(complainEvery)
		l.log.Warn("spans were not sent; further errors are not logged for a minute", "error", err)
	}
}

func stopTracing(provider tracing.TracerProvider, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := provider.Shutdown(ctx); err != nil {
		log.Warn("the last spans were not sent", "error", err)
	}
}

// readTracing reads a TracingConfiguration in any version of kube-apiserver.
func readTracing(file string) (*tracingv1.TracingConfiguration, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	read := &apiserver.TracingConfiguration{}
	if err := runtime.DecodeInto(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data, read); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	config := &read.TracingConfiguration
	if err := tracingv1.ValidateTracingConfiguration(config, nil, nil).ToAggregate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return config, nil
}
